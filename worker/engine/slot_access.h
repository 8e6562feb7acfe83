// Bytes of persistent slots, whichever tier they are in, for whoever owns the engine.
#ifndef STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
#define STRATA_WORKER_ENGINE_SLOT_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/queue_device.h"
#include "program/ir/program.h"
#include "worker/engine/address_map.h"
#include "worker/engine/slot_writer.h"
#include "worker/engine/ssd_tier.h"

namespace strata::worker {

// Bytes [offset, offset + bytes) of a slot.
struct SlotPiece {
  int64_t offset = 0, bytes = 0;
};

// Reads slots on SSD, or in memory that the host does not reach, on a thread of its own, while
// steps run that do not change them.
class SlotReader {
 public:
  // As SlotAccess::Read.
  absl::Status Read(int slot, int version, int64_t applied, int64_t offset,
                    absl::Span<std::byte> to);

 private:
  friend class SlotAccess;
  SlotReader(const program::ProgramSet* set, const AddressMap* addresses,
             std::unique_ptr<memory::SsdQueue> queue, device::QueueDevice* device)
      : set_(set), addresses_(addresses), queue_(std::move(queue)), device_(device) {}

  const program::ProgramSet* const set_;
  const AddressMap* const addresses_;
  const std::unique_ptr<memory::SsdQueue> queue_;  // null: nothing is on SSD
  device::QueueDevice* const device_;              // null: the host reaches all memory
};

class SlotAccess {
 public:
  // All borrowed. `device`: of the bytes that the host does not reach; null where it reaches all.
  SlotAccess(const program::ProgramSet* set, const AddressMap* addresses, SsdTier* ssd,
             device::QueueDevice* device)
      : set_(set), addresses_(addresses), ssd_(ssd), device_(device) {}

  // Before the SSD tier opens: tells it of all that Read and Write may ask of it.
  void Declare();

  // Copies bytes from `offset` of a slot on: version 0 is what a step that starts with `applied`
  // updates reads, 1 what it writes. On the thread that calls RunStep, after Drain; of a slot on
  // SSD whole pieces, to or from a block's address (memory::kSsdBlockBytes).
  absl::Status Read(int slot, int version, int64_t applied, int64_t offset,
                    absl::Span<std::byte> to);
  absl::Status Write(int slot, int version, int64_t applied, int64_t offset,
                     absl::Span<const std::byte> from);
  // What of the slot can be moved by itself: on SSD, what programs move; elsewhere it is one piece.
  std::vector<SlotPiece> Pieces(int slot) const;
  // Whether the host reaches the slot's bytes where they lie (Engine::SlotBytes).
  bool IsNear(int slot) const;
  // For another thread. The engine outlives it.
  std::unique_ptr<SlotReader> OpenReader();
  // Of slots that are neither near nor on SSD. The engine outlives it.
  absl::StatusOr<std::unique_ptr<SlotWriter>> OpenWriter(int64_t buffer_bytes);

 private:
  bool IsOnSsd(int slot) const { return set_->slots[slot].tier == program::Tier::kSsd; }
  absl::Status Copy(int slot, std::byte* to, const std::byte* from, int64_t bytes);
  absl::Status CheckRange(int slot, int64_t offset, size_t bytes) const;

  const program::ProgramSet* const set_;
  const AddressMap* const addresses_;
  SsdTier* const ssd_;
  device::QueueDevice* const device_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
