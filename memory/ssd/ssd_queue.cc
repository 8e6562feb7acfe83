#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "memory/ssd/ssd_store.h"

namespace strata::memory {
namespace {

class Stopwatch {
 public:
  Stopwatch(const common::Clock* clock, std::atomic<int64_t>& nanos)
      : clock_(clock), nanos_(nanos), begin_(clock->Now()) {}
  ~Stopwatch() { nanos_ += static_cast<int64_t>((clock_->Now() - begin_) * 1e9); }

 private:
  const common::Clock* const clock_;
  std::atomic<int64_t>& nanos_;
  const double begin_;
};

absl::Status CheckMemory(const void* memory) {
  if (reinterpret_cast<uintptr_t>(memory) % kSsdBlockBytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the SSD tier moves memory that begins at whole blocks");
}

}  // namespace

SsdQueue::SsdQueue(SsdStore* store, std::unique_ptr<IoBackend> backend)
    : store_(store),
      backend_(std::move(backend)),
      pieces_(store->options_.queue_depth),
      completions_(store->options_.queue_depth),
      rest_(static_cast<std::byte*>(std::aligned_alloc(kSsdBlockBytes, kSsdBlockBytes)),
            &std::free),
      hash_(XXH3_createState()) {
  for (int piece = 0; piece < static_cast<int>(pieces_.size()); ++piece) free_.push_back(piece);
}

void SsdQueue::HashDeleter::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

absl::Status SsdQueue::Read(int64_t offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckMemory(to.data()));
  const Memory memory{offset, to.data(), static_cast<int64_t>(to.size())};
  ASSIGN_OR_RETURN(const absl::Span<SsdStore::Extent> extents,
                   store_->Find(offset, common::RoundUp(memory.bytes, kSsdBlockBytes)));
  const Stopwatch stopwatch(store_->options_.clock, store_->read_nanos_);
  for (size_t e = 0; e < extents.size(); ++e) {
    SsdExtent range = extents[e].range;
    if (!extents[e].written) {
      Clear(memory, range);
      continue;
    }
    while (e + 1 < extents.size() && extents[e + 1].written) {
      range.bytes += extents[++e].range.bytes;
    }
    RETURN_IF_ERROR(Move(false, memory, range));
    store_->bytes_read_ += range.bytes;
  }
  for (const SsdStore::Extent& extent : extents) {
    if (!extent.written) continue;
    const uint64_t found = ChecksumOf(memory, extent.range);
    if (found == extent.checksum) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s: the %d bytes from there on have the checksum %016x, those that were written had %016x "
        "— the disk does not keep what it is given: replace it; the job goes on from its last "
        "checkpoint",
        store_->Where(extent.range.offset), extent.range.bytes, found, extent.checksum));
  }
  std::memcpy(to.data() + memory.whole(), rest_.get(), memory.bytes - memory.whole());
  return absl::OkStatus();
}

absl::Status SsdQueue::Write(int64_t offset, absl::Span<const std::byte> from) {
  RETURN_IF_ERROR(CheckMemory(from.data()));
  const Memory memory{offset, const_cast<std::byte*>(from.data()),
                      static_cast<int64_t>(from.size())};
  const int64_t bytes = common::RoundUp(memory.bytes, kSsdBlockBytes);
  ASSIGN_OR_RETURN(const absl::Span<SsdStore::Extent> extents, store_->Find(offset, bytes));
  const Stopwatch stopwatch(store_->options_.clock, store_->write_nanos_);
  const int64_t rest = memory.bytes - memory.whole();
  std::memcpy(rest_.get(), from.data() + memory.whole(), rest);
  std::memset(rest_.get() + rest, 0, kSsdBlockBytes - rest);
  for (SsdStore::Extent& extent : extents) {
    extent.checksum = ChecksumOf(memory, extent.range);
    extent.written = true;
  }
  RETURN_IF_ERROR(Move(true, memory, {offset, bytes}));
  store_->bytes_written_ += bytes;
  return absl::OkStatus();
}

// The checksum of the extent's blocks in memory and, where it ends with it, of the rest: that of
// its bytes in a row, however a later transfer cuts them.
uint64_t SsdQueue::ChecksumOf(const Memory& memory, SsdExtent extent) {
  const int64_t begin = extent.offset - memory.offset;
  const int64_t whole = std::min(extent.bytes, memory.whole() - begin);
  if (whole == extent.bytes) return XXH3_64bits(memory.data + begin, whole);
  XXH3_64bits_reset(hash_.get());
  XXH3_64bits_update(hash_.get(), memory.data + begin, whole);
  XXH3_64bits_update(hash_.get(), rest_.get(), kSsdBlockBytes);
  return XXH3_64bits_digest(hash_.get());
}

void SsdQueue::Clear(const Memory& memory, SsdExtent extent) {
  const int64_t begin = extent.offset - memory.offset;
  const int64_t whole = std::min(extent.bytes, memory.whole() - begin);
  std::memset(memory.data + begin, 0, whole);
  if (whole < extent.bytes) std::memset(rest_.get(), 0, kSsdBlockBytes);
}

absl::Status SsdQueue::Move(bool write, const Memory& memory, SsdExtent range) {
  const int64_t whole_end = memory.offset + memory.whole();
  const int64_t end = range.offset + range.bytes;
  int64_t offset = range.offset;
  absl::Status status;
  while (status.ok() && (offset < end || busy())) {
    while (status.ok() && offset < end && !free_.empty()) {
      const int slot = free_.back();
      const bool rest = offset >= whole_end;
      const int64_t most = std::min(store_->options_.request_bytes,
                                    (rest ? end : std::min(end, whole_end)) - offset);
      const int64_t piece = std::min(most, store_->stripes_.Find(offset).bytes);
      free_.pop_back();
      pieces_[slot] = {offset, rest ? rest_.get() : memory.data + (offset - memory.offset), piece};
      offset += piece;
      status = Submit(write, slot);
    }
    if (status.ok()) status = Advance(write);
  }
  if (!status.ok()) Drain();
  return status;
}

absl::Status SsdQueue::Submit(bool write, int slot) {
  const Piece& piece = pieces_[slot];
  const Stripes::Place place = store_->stripes_.Find(piece.offset);
  const absl::Status status = backend_->Submit({.write = write,
                                                .file = store_->files_[place.file],
                                                .offset = place.offset,
                                                .data = piece.data,
                                                .bytes = piece.bytes,
                                                .id = slot});
  if (!status.ok()) free_.push_back(slot);  // it is not in flight
  return status;
}

absl::Status SsdQueue::Advance(bool write) {
  ASSIGN_OR_RETURN(const int count, backend_->Wait(absl::MakeSpan(completions_)));
  absl::Status first;
  for (int i = 0; i < count; ++i) first.Update(Continue(write, completions_[i]));
  return first;
}

absl::Status SsdQueue::Continue(bool write, const IoCompletion& completion) {
  const auto slot = static_cast<int>(completion.id);
  Piece& piece = pieces_[slot];
  const int64_t moved = completion.result;
  if (moved == -EINTR || moved == -EAGAIN) return Submit(write, slot);
  if (moved >= kSsdBlockBytes && moved < piece.bytes) {
    // Whole blocks of it: the rest begins at one again.
    const int64_t whole = moved / kSsdBlockBytes * kSsdBlockBytes;
    piece = {piece.offset + whole, piece.data + whole, piece.bytes - whole};
    return Submit(write, slot);
  }
  free_.push_back(slot);
  if (moved == piece.bytes) return absl::OkStatus();
  const std::string what = absl::StrCat(
      store_->Where(piece.offset), ": ", write ? "writing " : "reading ", piece.bytes, " bytes: ",
      moved < 0 ? std::strerror(static_cast<int>(-moved))
                : absl::StrCat("no more than ", moved, " were moved"));
  if (moved == -ENOSPC || moved == -EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(what, " — make room on the disk"));
  }
  return absl::DataLossError(absl::StrCat(
      what,
      " — the kernel's log says what ails the disk; the job goes on from its last checkpoint"));
}

// Until then memory is in use.
void SsdQueue::Drain() {
  while (busy()) {
    const absl::StatusOr<int> count = backend_->Wait(absl::MakeSpan(completions_));
    if (!count.ok()) return;
    for (int i = 0; i < *count; ++i) free_.push_back(static_cast<int>(completions_[i].id));
  }
}

}  // namespace strata::memory
