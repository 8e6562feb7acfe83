// Bytes of persistent slots in memory, piece by piece: where they lie, or, of slots that the host
// does not reach (on SSD, on a GPU), copies.
#ifndef STRATA_WORKER_TRAINER_SLOT_WINDOW_H_
#define STRATA_WORKER_TRAINER_SLOT_WINDOW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memory/ssd/block_buffer.h"
#include "worker/engine/engine.h"

namespace strata::worker {

// Fills version `applied` of slots. On the thread that calls RunStep, before steps run.
class SlotFiller {
 public:
  using Fill = std::function<absl::Status(int64_t offset, absl::Span<std::byte> bytes)>;
  static constexpr int64_t kBufferBytes = int64_t{32} << 20;

  // `buffer_bytes`: what goes to a device at once, at most, while the next is filled.
  SlotFiller(Engine& engine, int64_t applied, int64_t buffer_bytes = kBufferBytes);

  // Pieces of whole units after another: `fill` writes all bytes of [offset, offset + size), which
  // may be anything.
  absl::Status Units(int slot, int64_t unit_bytes, const Fill& fill);
  // All in one piece, of bytes that are zero in a new engine.
  absl::Status Whole(int slot, const Fill& fill);
  // Slots are filled once it has returned.
  absl::Status Finish() { return writer_ == nullptr ? absl::OkStatus() : writer_->Finish(); }

 private:
  absl::Status ByBuffers(int slot, int64_t unit_bytes, const Fill& fill);
  absl::Status ByCopies(int slot, int64_t unit_bytes, const Fill& fill);

  Engine& engine_;
  const int64_t applied_;
  int64_t buffer_bytes_ = 0;            // of a small model's as much as its largest slot
  std::unique_ptr<SlotWriter> writer_;  // of the device; null: not needed so far
};

// Reads slots for a checkpoint while the next step runs; those on SSD with a queue of its own, and
// those that are not near by copies, of the pieces that were read last. The engine outlives it.
class SlotSource {
 public:
  SlotSource(Engine& engine, int64_t applied);

  // Copies.
  absl::Status Read(int slot, int64_t offset, int64_t bytes, std::byte* out);
  // All of a slot, which is one piece, until the next call.
  absl::StatusOr<const std::byte*> Whole(int slot);

 private:
  struct Copy {
    int slot = -1;  // read to its end, or never filled
    SlotPiece piece;
    memory::BlockBuffer data;
  };
  // The copy that has the byte: where there was none, in place of one that nobody needs any more.
  absl::StatusOr<Copy*> Bring(int slot, int64_t offset);

  Engine& engine_;
  const int64_t applied_;
  std::unique_ptr<SlotReader> reader_;          // null: all is near
  std::vector<std::vector<SlotPiece>> pieces_;  // of slots that are not
  std::array<Copy, 2> copies_;  // of weights, and of their states where both are read by turns
  size_t next_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_SLOT_WINDOW_H_
