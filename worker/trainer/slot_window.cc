#include "worker/trainer/slot_window.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/status_macros.h"

namespace strata::worker {

SlotFiller::SlotFiller(Engine& engine, int64_t applied, int64_t buffer_bytes)
    : engine_(engine), applied_(applied) {
  for (const program::Slot& slot : engine.programs().slots) {
    buffer_bytes_ = std::max(buffer_bytes_, std::min(buffer_bytes, slot.bytes));
  }
}

absl::Status SlotFiller::Units(int slot, int64_t unit_bytes, const Fill& fill) {
  if (engine_.slots().IsNear(slot)) return fill(0, engine_.SlotBytes(slot, 0, applied_));
  const bool on_ssd = engine_.programs().slots[slot].tier == program::Tier::kSsd;
  if (on_ssd || unit_bytes > buffer_bytes_) return ByCopies(slot, unit_bytes, fill);
  return ByBuffers(slot, unit_bytes, fill);
}

absl::Status SlotFiller::Whole(int slot, const Fill& fill) {
  if (engine_.slots().IsNear(slot)) return fill(0, engine_.SlotBytes(slot, 0, applied_));
  return ByCopies(slot, std::numeric_limits<int64_t>::max(), fill);
}

absl::Status SlotFiller::ByBuffers(int slot, int64_t unit_bytes, const Fill& fill) {
  if (writer_ == nullptr) {
    ASSIGN_OR_RETURN(writer_, engine_.slots().OpenWriter(buffer_bytes_));
  }
  const int64_t all = engine_.programs().slots[slot].bytes;
  const int64_t most = buffer_bytes_ / unit_bytes * unit_bytes;
  for (int64_t offset = 0; offset < all; offset += most) {
    const int64_t bytes = std::min(most, all - offset);
    RETURN_IF_ERROR(fill(offset, writer_->buffer().subspan(0, static_cast<size_t>(bytes))));
    RETURN_IF_ERROR(writer_->Write(slot, 0, applied_, offset, bytes));
  }
  return absl::OkStatus();
}

absl::Status SlotFiller::ByCopies(int slot, int64_t unit_bytes, const Fill& fill) {
  std::vector<SlotPiece> pieces;
  for (const SlotPiece& piece : engine_.slots().Pieces(slot)) {
    const bool begins = piece.offset % unit_bytes == 0;
    if (pieces.empty() || begins) pieces.push_back({piece.offset, 0});
    pieces.back().bytes += piece.bytes;
  }
  int64_t most = 0;
  for (const SlotPiece& piece : pieces) most = std::max(most, piece.bytes);
  const memory::BlockBuffer buffer(most);
  for (const SlotPiece& piece : pieces) {
    const absl::Span<std::byte> bytes(buffer.data(), static_cast<size_t>(piece.bytes));
    std::memset(bytes.data(), 0, bytes.size());
    RETURN_IF_ERROR(fill(piece.offset, bytes));
    RETURN_IF_ERROR(engine_.slots().Write(slot, 0, applied_, piece.offset, bytes));
  }
  return absl::OkStatus();
}

SlotSource::SlotSource(Engine& engine, int64_t applied)
    : engine_(engine), applied_(applied), pieces_(engine.programs().slots.size()) {
  for (size_t slot = 0; slot < pieces_.size(); ++slot) {
    if (engine.slots().IsNear(static_cast<int>(slot))) continue;
    pieces_[slot] = engine.slots().Pieces(static_cast<int>(slot));
    if (reader_ == nullptr) reader_ = engine.slots().OpenReader();
  }
}

absl::Status SlotSource::Read(int slot, int64_t offset, int64_t bytes, std::byte* out) {
  if (engine_.slots().IsNear(slot)) {
    std::memcpy(out, engine_.SlotBytes(slot, 0, applied_).data() + offset, bytes);
    return absl::OkStatus();
  }
  if (engine_.programs().slots[slot].tier != program::Tier::kSsd) {
    return reader_->Read(slot, 0, applied_, offset, absl::MakeSpan(out, bytes));
  }
  while (bytes > 0) {
    ASSIGN_OR_RETURN(Copy* const copy, Bring(slot, offset));
    const int64_t skip = offset - copy->piece.offset;
    const int64_t count = std::min(bytes, copy->piece.bytes - skip);
    std::memcpy(out, copy->data.data() + skip, count);
    // Pieces are read once, from their beginning to their end.
    if (skip + count == copy->piece.bytes) copy->slot = -1;
    offset += count;
    bytes -= count;
    out += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<const std::byte*> SlotSource::Whole(int slot) {
  if (engine_.slots().IsNear(slot)) return engine_.SlotBytes(slot, 0, applied_).data();
  ASSIGN_OR_RETURN(const Copy* const copy, Bring(slot, 0));
  return copy->data.data();
}

absl::StatusOr<SlotSource::Copy*> SlotSource::Bring(int slot, int64_t offset) {
  for (Copy& copy : copies_) {
    if (copy.slot == slot && copy.piece.offset <= offset &&
        offset < copy.piece.offset + copy.piece.bytes) {
      return &copy;
    }
  }
  const auto piece = std::prev(std::upper_bound(
      pieces_[slot].begin(), pieces_[slot].end(), offset,
      [](int64_t at, const SlotPiece& candidate) { return at < candidate.offset; }));
  const auto done =
      std::find_if(copies_.begin(), copies_.end(), [](const Copy& each) { return each.slot < 0; });
  Copy& copy = done != copies_.end() ? *done : copies_[next_++ % copies_.size()];
  copy.slot = -1;
  if (copy.data.size() < piece->bytes) {
    copy.data = {};  // first, or there would be both for a moment
    copy.data = memory::BlockBuffer(piece->bytes);
  }
  RETURN_IF_ERROR(
      reader_->Read(slot, 0, applied_, piece->offset, copy.data.bytes().subspan(0, piece->bytes)));
  copy.slot = slot;
  copy.piece = *piece;
  return &copy;
}

}  // namespace strata::worker
