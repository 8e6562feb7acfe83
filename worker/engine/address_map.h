// Where a rank's slots lie: one arena per tier, and addresses in them. What is in unified memory
// lies apart: homes in memory of its own, and rooms nowhere but in their homes
// (program/ir/unified.h).
#ifndef STRATA_WORKER_ENGINE_ADDRESS_MAP_H_
#define STRATA_WORKER_ENGINE_ADDRESS_MAP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/device.h"
#include "device/unified_memory.h"
#include "memory/arena.h"
#include "program/ir/program.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

class AddressMap {
 public:
  // Reserves the arenas: addresses, no bytes yet; of fixed pages (memory/arena.h) where `fixed`.
  // `set`, `device` and `unified`, which may be null, are borrowed. InvalidArgument: a laid-out set
  // whose slots do not fit its arenas, or rooms that are not of one home; Unimplemented: there is
  // no unified memory; ResourceExhausted: no memory.
  static absl::StatusOr<AddressMap> Create(const program::ProgramSet& set, device::Device* device,
                                           device::UnifiedMemory* unified, bool fixed);
  // Makes every page present and zero, but those of the SSD tier, whose addresses stay names
  // (ssd_tier.h). A fixed host tier is near the node's processors (memory/numa.h).
  // ResourceExhausted: no memory.
  absl::Status Commit(int host_node);

  // The operand's bytes on this rank, in a step that starts with `applied` updates.
  // InvalidArgument: outside its slot, or in a group of another size than the program was made for.
  absl::StatusOr<BoundOperand> Resolve(const program::Program& program,
                                       const program::Operand& operand, const GroupTable& groups,
                                       int64_t applied) const;

  // Whether the host may read and write a slot of a program, or of the set, where it lies: not what
  // is in unified memory, whose pages may be away. Copies of the device reach that.
  bool IsHostAccessible(const program::Slot& slot) const;

  // A place in the SSD tier by the address that names it.
  int64_t OffsetOnSsd(const std::byte* address) const {
    return address - arenas_[static_cast<int>(program::Tier::kSsd)].data();
  }

  // A persistent slot's bytes.
  absl::Span<std::byte> Bytes(int slot, int version, int64_t applied) const;
  // With what is in unified memory: on the device, at most at once.
  int64_t arena_bytes(program::Tier tier) const {
    return arenas_[static_cast<int>(tier)].bytes() + unified_bytes_[static_cast<int>(tier)];
  }
  const memory::PageReport& pages(program::Tier tier) const {
    return arenas_[static_cast<int>(tier)].pages();
  }

 private:
  using Unified = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  AddressMap(const program::ProgramSet& set, device::Device* device)
      : set_(&set), device_(device) {}
  absl::Status ReserveUnified(device::UnifiedMemory* unified);
  absl::Status FindHomes(const program::Program& program);
  // Of a slot that is no room.
  std::byte* At(const program::Slot& slot, int64_t offset) const;

  const program::ProgramSet* set_;
  device::Device* device_;
  std::array<memory::Arena, program::kTierCount> arenas_;
  Unified unified_;  // null: there is none
  // Behind the arenas' bytes.
  std::array<int64_t, program::kTierCount> unified_begin_{}, unified_bytes_{};
  // By program and its slot: where the bytes of a room are; slot -1: it is none. Empty where
  // nothing is in unified memory.
  std::vector<std::vector<program::Operand>> homes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ADDRESS_MAP_H_
