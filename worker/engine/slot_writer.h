// Fills slots in memory that the host does not reach, at the pace of the device's copies.
#ifndef STRATA_WORKER_ENGINE_SLOT_WRITER_H_
#define STRATA_WORKER_ENGINE_SLOT_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/queue_device.h"
#include "memory/arena.h"

namespace strata::worker {

class SlotAccess;

// Two buffers of pinned memory by turns: what one holds goes to its slot while the other is filled.
// On the thread that calls RunStep, before steps run.
class SlotWriter {
 public:
  // `slots` and `device` are borrowed. ResourceExhausted: no memory for the buffers.
  static absl::StatusOr<std::unique_ptr<SlotWriter>> Create(SlotAccess* slots,
                                                            device::QueueDevice* device,
                                                            int64_t buffer_bytes);
  // Waits for the last copy, of whose error nobody hears then.
  ~SlotWriter() = default;

  // The one to fill next; its bytes may be anything.
  absl::Span<std::byte> buffer() const;
  // Begins to write its first bytes, and turns to the other one. As SlotAccess::Write; errors are
  // those of the write before.
  absl::Status Write(int slot, int version, int64_t applied, int64_t offset, int64_t bytes);
  // Waits for the last write.
  absl::Status Finish();

 private:
  SlotWriter(SlotAccess* slots, int64_t buffer_bytes, memory::Arena buffers)
      : slots_(slots), buffer_bytes_(buffer_bytes), buffers_(std::move(buffers)) {}

  SlotAccess* const slots_;
  const int64_t buffer_bytes_;
  memory::Arena buffers_;
  int next_ = 0;
  std::future<absl::Status> copied_;  // last: it reads a buffer
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SLOT_WRITER_H_
