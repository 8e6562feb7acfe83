// Bytes of persistent slots, whichever tier they are in, for whoever owns the engine.
#ifndef STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
#define STRATA_WORKER_ENGINE_SLOT_ACCESS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "program/ir/program.h"
#include "worker/engine/address_map.h"
#include "worker/engine/ssd_tier.h"

namespace strata::worker {

class SlotAccess {
 public:
  // All borrowed.
  SlotAccess(const program::ProgramSet* set, const AddressMap* addresses, SsdTier* ssd)
      : set_(set), addresses_(addresses), ssd_(ssd) {}

  // Before the SSD tier opens: tells it of all that Read and Write may ask of it.
  void Declare();

  // As Engine::ReadSlot and WriteSlot.
  absl::Status Read(int slot, int version, int64_t applied, absl::Span<std::byte> to);
  absl::Status Write(int slot, int version, int64_t applied, absl::Span<const std::byte> from);

 private:
  bool IsOnSsd(int slot) const { return set_->slots[slot].tier == program::Tier::kSsd; }
  absl::Status CheckSize(int slot, size_t bytes) const;

  const program::ProgramSet* const set_;
  const AddressMap* const addresses_;
  SsdTier* const ssd_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SLOT_ACCESS_H_
