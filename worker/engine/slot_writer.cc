#include "worker/engine/slot_writer.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/engine/slot_access.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<SlotWriter>> SlotWriter::Create(SlotAccess* slots,
                                                               device::QueueDevice* device,
                                                               int64_t buffer_bytes) {
  ASSIGN_OR_RETURN(memory::Arena buffers,
                   memory::Arena::Reserve(device, device::Memory::kHost, 2 * buffer_bytes));
  RETURN_IF_ERROR(buffers.Commit());
  return std::unique_ptr<SlotWriter>(new SlotWriter(slots, buffer_bytes, std::move(buffers)));
}

absl::Span<std::byte> SlotWriter::buffer() const {
  return {buffers_.data() + next_ * buffer_bytes_, static_cast<size_t>(buffer_bytes_)};
}

absl::Status SlotWriter::Write(int slot, int version, int64_t applied, int64_t offset,
                               int64_t bytes) {
  RETURN_IF_ERROR(Finish());
  // A thread for each copy costs far less than the copy.
  copied_ = std::async(std::launch::async,
                       [=, this, from = buffer().subspan(0, static_cast<size_t>(bytes))] {
                         return slots_->Write(slot, version, applied, offset, from);
                       });
  next_ = 1 - next_;
  return absl::OkStatus();
}

absl::Status SlotWriter::Finish() { return copied_.valid() ? copied_.get() : absl::OkStatus(); }

}  // namespace strata::worker
