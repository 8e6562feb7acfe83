#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/processor_time.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "memory/ssd/ssd_store.h"

namespace strata::memory {
namespace {

// What a transfer takes of a clock, of this thread's processor and of the back end's.
class Stopwatch {
 public:
  Stopwatch(const common::Clock* clock, const IoBackend* backend, std::atomic<int64_t>& nanos,
            std::atomic<int64_t>& processor_nanos)
      : clock_(clock),
        backend_(backend),
        nanos_(nanos),
        processor_nanos_(processor_nanos),
        begin_(clock->Now()),
        processor_begin_(ProcessorNanos()) {}
  ~Stopwatch() {
    nanos_ += static_cast<int64_t>((clock_->Now() - begin_) * 1e9);
    processor_nanos_ += ProcessorNanos() - processor_begin_;
  }

 private:
  int64_t ProcessorNanos() const {
    return common::ThreadProcessorNanos() + backend_->processor_nanos();
  }

  const common::Clock* const clock_;
  const IoBackend* const backend_;
  std::atomic<int64_t>& nanos_;
  std::atomic<int64_t>& processor_nanos_;
  const double begin_;
  const int64_t processor_begin_;
};

absl::Status CheckMemory(const void* memory) {
  if (reinterpret_cast<uintptr_t>(memory) % kSsdBlockBytes == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("the SSD tier moves memory that begins at whole blocks");
}

}  // namespace

SsdQueue::SsdQueue(SsdStore* store, std::unique_ptr<IoBackend> backend)
    : store_(store),
      backend_(std::move(backend)),
      pieces_(store->requests_at_once()),
      completions_(store->requests_at_once()) {
  for (int piece = 0; piece < static_cast<int>(pieces_.size()); ++piece) free_.push_back(piece);
}

absl::Status SsdQueue::Read(SsdClass request_class, int64_t offset, absl::Span<std::byte> to) {
  RETURN_IF_ERROR(CheckMemory(to.data()));
  const Memory memory{offset, to.data(), static_cast<int64_t>(to.size())};
  ASSIGN_OR_RETURN(const absl::Span<SsdStore::Extent> extents,
                   store_->Find(offset, common::RoundUp(memory.bytes, kSsdBlockBytes)));
  const Stopwatch stopwatch(store_->options_.clock, backend_.get(), store_->read_nanos_,
                            store_->processor_nanos_);
  const SsdStore::Extent* differs = nullptr;
  uint64_t found = 0;
  for (size_t e = 0, count = 1; e < extents.size(); e += count, count = 1) {
    if (!extents[e].written) {
      Clear(memory, extents[e].range);
      continue;
    }
    while (e + count < extents.size() && extents[e + count].written) ++count;
    Transfer transfer = TransferOf(false, request_class, memory, extents.subspan(e, count));
    RETURN_IF_ERROR(Move(transfer));
    store_->bytes_read_ += transfer.end() - extents[e].range.offset;
    if (differs != nullptr) continue;
    differs = transfer.differs;
    found = transfer.found;
  }
  if (differs != nullptr) {
    return absl::DataLossError(absl::StrFormat(
        "%s: the %d bytes from there on have the checksum %016x, those that were written had %016x "
        "— the disk does not keep what it is given: replace it; the job goes on from its last "
        "checkpoint",
        store_->Where(differs->range.offset), differs->range.bytes, found, differs->checksum));
  }
  std::memcpy(to.data() + memory.whole(), rest_.data(), memory.bytes - memory.whole());
  return absl::OkStatus();
}

absl::Status SsdQueue::Write(SsdClass request_class, int64_t offset,
                             absl::Span<const std::byte> from) {
  RETURN_IF_ERROR(CheckMemory(from.data()));
  const Memory memory{offset, const_cast<std::byte*>(from.data()),
                      static_cast<int64_t>(from.size())};
  const int64_t bytes = common::RoundUp(memory.bytes, kSsdBlockBytes);
  ASSIGN_OR_RETURN(const absl::Span<SsdStore::Extent> extents, store_->Find(offset, bytes));
  const Stopwatch stopwatch(store_->options_.clock, backend_.get(), store_->write_nanos_,
                            store_->processor_nanos_);
  const int64_t rest = memory.bytes - memory.whole();
  std::memcpy(rest_.data(), from.data() + memory.whole(), rest);
  std::memset(rest_.data() + rest, 0, kSsdBlockBytes - rest);
  Transfer transfer = TransferOf(true, request_class, memory, extents);
  RETURN_IF_ERROR(Move(transfer));
  store_->bytes_written_ += bytes;
  return absl::OkStatus();
}

SsdQueue::Transfer SsdQueue::TransferOf(bool write, SsdClass request_class, const Memory& memory,
                                        absl::Span<SsdStore::Extent> extents) {
  const int64_t begin = extents.front().range.offset;
  return {.claim = {.write = write, .request_class = request_class},
          .memory = memory,
          .extents = extents,
          .submitted = begin,
          .hashed = begin};
}

std::byte* SsdQueue::At(const Memory& memory, int64_t offset) const {
  return offset >= memory.whole_end() ? rest_.data() : memory.data + (offset - memory.offset);
}

void SsdQueue::Clear(const Memory& memory, SsdExtent extent) {
  const int64_t begin = extent.offset - memory.offset;
  const int64_t whole = std::min(extent.bytes, memory.whole() - begin);
  std::memset(memory.data + begin, 0, whole);
  if (whole < extent.bytes) std::memset(rest_.data(), 0, kSsdBlockBytes);
}

absl::Status SsdQueue::Move(Transfer& transfer) {
  absl::Status status;
  while (status.ok() && (transfer.submitted < transfer.end() || busy())) {
    status = SubmitSome(transfer);
    HashTo(Known(transfer), transfer);
    if (status.ok()) status = Advance(transfer);
  }
  if (!status.ok()) {
    store_->scheduler_.Withdraw(transfer.claim);
    Drain(transfer);
  }
  if (status.ok() || transfer.write()) HashTo(transfer.end(), transfer);
  return status;
}

absl::Status SsdQueue::SubmitSome(Transfer& transfer) {
  while (transfer.submitted < transfer.end() && !free_.empty()) {
    const int64_t bytes = NextBytes(transfer);
    if (!store_->scheduler_.TryTake(transfer.claim, bytes)) {
      if (busy()) return absl::OkStatus();
      store_->scheduler_.Take(transfer.claim, bytes);
    }
    RETURN_IF_ERROR(SubmitNext(transfer, bytes));
  }
  return absl::OkStatus();
}

int64_t SsdQueue::NextBytes(const Transfer& transfer) const {
  const int64_t at = transfer.submitted, whole_end = transfer.memory.whole_end();
  int64_t most = store_->options_.request_bytes;
  if (transfer.write()) most = store_->scheduler_.MostWriteBytes(most);
  const int64_t end = at < whole_end ? std::min(transfer.end(), whole_end) : transfer.end();
  return std::min({most, end - at, store_->stripes_.Find(at).bytes});
}

absl::Status SsdQueue::SubmitNext(Transfer& transfer, int64_t bytes) {
  const int slot = free_.back();
  free_.pop_back();
  const int path = store_->stripes_.Find(transfer.submitted).file;
  pieces_[slot] = {transfer.submitted, At(transfer.memory, transfer.submitted), bytes, bytes, path};
  store_->loads_[path].Begin(transfer.write(), store_->options_.clock->Now());
  transfer.submitted += bytes;
  return Submit(transfer, slot);
}

absl::Status SsdQueue::Submit(const Transfer& transfer, int slot) {
  const Piece& piece = pieces_[slot];
  const Stripes::Place place = store_->stripes_.Find(piece.offset);
  const absl::Status status = backend_->Submit({.write = transfer.write(),
                                                .file = store_->files_[place.file],
                                                .offset = place.offset,
                                                .data = piece.data,
                                                .bytes = piece.bytes,
                                                .id = slot});
  if (!status.ok()) Free(transfer, slot);  // it is not in flight
  return status;
}

absl::Status SsdQueue::Advance(Transfer& transfer) {
  ASSIGN_OR_RETURN(const int count, backend_->Wait(absl::MakeSpan(completions_)));
  absl::Status first;
  for (int i = 0; i < count; ++i) first.Update(Continue(transfer, completions_[i]));
  return first;
}

absl::Status SsdQueue::Continue(Transfer& transfer, const IoCompletion& completion) {
  const auto slot = static_cast<int>(completion.id);
  Piece& piece = pieces_[slot];
  const int64_t moved = completion.result;
  if (moved == -EINTR || moved == -EAGAIN) return Submit(transfer, slot);
  if (moved >= kSsdBlockBytes && moved < piece.bytes) {
    // Whole blocks of it: the rest begins at one again.
    const int64_t whole = moved / kSsdBlockBytes * kSsdBlockBytes;
    piece.offset += whole;
    piece.data += whole;
    piece.bytes -= whole;
    return Submit(transfer, slot);
  }
  const Piece over = piece;
  Free(transfer, slot);
  if (moved == over.bytes) return absl::OkStatus();
  const std::string what =
      absl::StrCat(store_->Where(over.offset), ": ", transfer.write() ? "writing " : "reading ",
                   over.bytes, " bytes: ",
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
void SsdQueue::Drain(Transfer& transfer) {
  while (busy()) {
    const absl::StatusOr<int> count = backend_->Wait(absl::MakeSpan(completions_));
    if (!count.ok()) return;
    for (int i = 0; i < *count; ++i) Free(transfer, static_cast<int>(completions_[i].id));
  }
}

void SsdQueue::Free(const Transfer& transfer, int slot) {
  const Piece& piece = pieces_[slot];
  store_->scheduler_.Return(transfer.claim, piece.taken);
  store_->loads_[piece.path].End(transfer.write(), piece.taken, store_->options_.clock->Now());
  pieces_[slot] = {};
  free_.push_back(slot);
}

int64_t SsdQueue::Known(const Transfer& transfer) const {
  int64_t known = transfer.submitted;
  if (transfer.write()) return known;
  for (const Piece& piece : pieces_) {
    if (piece.bytes > 0) known = std::min(known, piece.offset);
  }
  return known;
}

// An extent's checksum is that of its bytes in a row, however transfers cut them.
void SsdQueue::HashTo(int64_t end, Transfer& transfer) {
  const int64_t whole_end = transfer.memory.whole_end();
  while (transfer.hashed < end) {
    const SsdExtent range = transfer.extents[transfer.extent].range;
    const int64_t at = transfer.hashed;
    int64_t stop = std::min(end, range.offset + range.bytes);
    if (at < whole_end) stop = std::min(stop, whole_end);
    if (at == range.offset) checksum_.Reset();
    checksum_.Add(At(transfer.memory, at), stop - at);
    transfer.hashed = stop;
    if (stop == range.offset + range.bytes) FinishExtent(transfer);
  }
}

void SsdQueue::FinishExtent(Transfer& transfer) {
  SsdStore::Extent& extent = transfer.extents[transfer.extent++];
  const uint64_t checksum = checksum_.Finish();
  if (transfer.write()) {
    extent.checksum = checksum;
    extent.written = true;
  } else if (checksum != extent.checksum && transfer.differs == nullptr) {
    transfer.differs = &extent;
    transfer.found = checksum;
  }
}

}  // namespace strata::memory
