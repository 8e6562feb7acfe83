#include "worker/engine/slot_access.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {

using memory::SsdClass;
using program::Stream;

void SlotAccess::Declare() {
  for (size_t s = 0; s < set_->slots.size(); ++s) {
    const int slot = static_cast<int>(s);
    if (!IsOnSsd(slot)) continue;
    const program::Placement& place = set_->placements[slot];
    for (int64_t copy = 0; copy < place.copies; ++copy) {
      ssd_->Use(place.offset + copy * place.stride, set_->slots[slot].bytes);
    }
  }
}

absl::Status SlotReader::Read(int slot, int version, int64_t applied, int64_t offset,
                              absl::Span<std::byte> to) {
  const std::byte* const from = addresses_->Bytes(slot, version, applied).data() + offset;
  if (set_->slots[slot].tier == program::Tier::kSsd) {
    return AsFailure(queue_->Read(SsdClass::kCheckpoint, addresses_->OffsetOnSsd(from), to));
  }
  return device_->CopyNow(to.data(), from, static_cast<int64_t>(to.size()));
}

absl::Status SlotAccess::Read(int slot, int version, int64_t applied, int64_t offset,
                              absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckRange(slot, offset, to.size()));
  const std::byte* const from = addresses_->Bytes(slot, version, applied).data() + offset;
  if (IsOnSsd(slot)) {
    return ssd_->Read(Stream::kCaller, SsdClass::kCheckpoint, addresses_->OffsetOnSsd(from), to);
  }
  return Copy(slot, to.data(), from, static_cast<int64_t>(to.size()));
}

absl::Status SlotAccess::Write(int slot, int version, int64_t applied, int64_t offset,
                               absl::Span<const std::byte> from) {
  RETURN_IF_ERROR(CheckRange(slot, offset, from.size()));
  std::byte* const to = addresses_->Bytes(slot, version, applied).data() + offset;
  if (IsOnSsd(slot)) {
    return ssd_->Write(Stream::kCaller, SsdClass::kCheckpoint, addresses_->OffsetOnSsd(to), from);
  }
  return Copy(slot, to, from.data(), static_cast<int64_t>(from.size()));
}

absl::Status SlotAccess::Copy(int slot, std::byte* to, const std::byte* from, int64_t bytes) {
  if (addresses_->IsHostAccessible(set_->slots[slot])) {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  if (device_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(set_->slots[slot].name, " lies where the host cannot reach it"));
  }
  return device_->CopyNow(to, from, bytes);
}

std::vector<SlotPiece> SlotAccess::Pieces(int slot) const {
  const int64_t bytes = set_->slots[slot].bytes;
  if (!IsOnSsd(slot)) return {{0, bytes}};
  const int64_t begin = set_->placements[slot].offset;
  std::vector<SlotPiece> pieces;
  for (const memory::SsdExtent& extent : ssd_->ExtentsOf(begin, bytes)) {
    const int64_t offset = extent.offset - begin;
    pieces.push_back({offset, std::min(extent.bytes, bytes - offset)});
  }
  return pieces;
}

bool SlotAccess::IsNear(int slot) const { return addresses_->IsHostAccessible(set_->slots[slot]); }

std::unique_ptr<SlotReader> SlotAccess::OpenReader() {
  auto queue = ssd_->store() == nullptr ? nullptr : ssd_->OpenQueue();
  return std::unique_ptr<SlotReader>(new SlotReader(set_, addresses_, std::move(queue), device_));
}

absl::StatusOr<std::unique_ptr<SlotWriter>> SlotAccess::OpenWriter(int64_t buffer_bytes) {
  return SlotWriter::Create(this, device_, buffer_bytes);
}

absl::Status SlotAccess::CheckRange(int slot, int64_t offset, size_t bytes) const {
  const int64_t whole = set_->slots[slot].bytes;
  if (offset >= 0 && offset + static_cast<int64_t>(bytes) <= whole) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(set_->slots[slot].name, " has ", whole,
                                                 " bytes, of which not ", bytes, " from ", offset,
                                                 " on can be moved"));
}

}  // namespace strata::worker
