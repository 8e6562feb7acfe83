// Bytes of persistent slots, whichever tier they are in, for whoever owns the engine.
#ifndef STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
#define STRATA_WORKER_ENGINE_SLOT_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "device/device.h"
#include "program/ir/program.h"
#include "worker/engine/address_map.h"
#include "worker/engine/ssd_tier.h"

namespace strata::worker {

// Bytes [offset, offset + bytes) of a slot.
struct SlotPiece {
  int64_t offset = 0, bytes = 0;
};

// Reads slots on SSD on a thread of its own, while steps run that do not change them.
class SlotReader {
 public:
  // As SlotAccess::Read.
  absl::Status Read(int slot, int version, int64_t applied, int64_t offset,
                    absl::Span<std::byte> to);

 private:
  friend class SlotAccess;
  SlotReader(const AddressMap* addresses, std::unique_ptr<memory::SsdQueue> queue)
      : addresses_(addresses), queue_(std::move(queue)) {}

  const AddressMap* const addresses_;
  const std::unique_ptr<memory::SsdQueue> queue_;
};

class SlotAccess {
 public:
  // All borrowed. `copies`: a stream of the device for bytes that the host does not reach, and
  // `copied`, an event of it; null where it reaches all.
  SlotAccess(const program::ProgramSet* set, const AddressMap* addresses, SsdTier* ssd,
             device::Stream* copies, device::Event* copied)
      : set_(set), addresses_(addresses), ssd_(ssd), copies_(copies), copied_(copied) {}

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
  // Of engines with slots on SSD: for another thread. The engine outlives it.
  std::unique_ptr<SlotReader> OpenReader();

 private:
  bool IsOnSsd(int slot) const { return set_->slots[slot].tier == program::Tier::kSsd; }
  absl::Status Copy(int slot, std::byte* to, const std::byte* from, int64_t bytes);
  absl::Status CheckRange(int slot, int64_t offset, size_t bytes) const;

  const program::ProgramSet* const set_;
  const AddressMap* const addresses_;
  SsdTier* const ssd_;
  device::Stream* const copies_;
  device::Event* const copied_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
