#include "worker/engine/address_map.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "memory/numa.h"

namespace strata::worker {
namespace {

using program::Placement;
using program::Slot;
using program::Tier;

device::Memory MemoryOf(Tier tier) {
  return tier == Tier::kDevice ? device::Memory::kDevice : device::Memory::kHost;
}

// Every copy of every slot lies in its arena, with room for what its alignment promises.
absl::Status CheckPlacements(const std::vector<Slot>& slots,
                             const std::vector<Placement>& placements,
                             const program::ProgramSet& set) {
  if (slots.size() != placements.size()) {
    return absl::InvalidArgumentError("the program set has not been laid out");
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    const Placement& place = placements[s];
    const int64_t end = place.offset + (place.copies - 1) * place.stride + slots[s].bytes;
    const int64_t arena = set.arena_bytes[static_cast<int>(slots[s].tier)];
    if (place.copies < 1 || place.offset < 0 || place.stride < 0 || end > arena) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", slots[s].name, " ends at byte ", end, " of an arena of ", arena));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AddressMap> AddressMap::Create(const program::ProgramSet& set,
                                              device::Device* device, bool fixed) {
  RETURN_IF_ERROR(CheckPlacements(set.slots, set.placements, set));
  for (const program::Program& program : set.programs) {
    RETURN_IF_ERROR(CheckPlacements(program.slots, program.placements, set));
  }
  AddressMap map(set, device);
  for (int t = 0; t < program::kTierCount; ++t) {
    ASSIGN_OR_RETURN(map.arenas_[t], memory::Arena::Reserve(device, MemoryOf(static_cast<Tier>(t)),
                                                            set.arena_bytes[t], fixed));
  }
  return map;
}

absl::Status AddressMap::Commit(int host_node) {
  for (int t = 0; t < program::kTierCount; ++t) {
    const auto tier = static_cast<Tier>(t);
    const memory::NodeScope near(tier == Tier::kHost ? host_node : -1);
    if (tier != Tier::kSsd) RETURN_IF_ERROR(arenas_[t].Commit());
  }
  return absl::OkStatus();
}

bool AddressMap::IsHostAccessible(const Slot& slot) const {
  return slot.tier != Tier::kSsd && device_->IsHostAccessible(MemoryOf(slot.tier));
}

absl::StatusOr<BoundOperand> AddressMap::Resolve(const program::Program& program,
                                                 const program::Operand& operand,
                                                 const GroupTable& groups, int64_t applied) const {
  const int slots = static_cast<int>(set_->slots.size() + program.slots.size());
  if (operand.slot < 0 || operand.slot >= slots) {
    return absl::InvalidArgumentError(absl::StrCat("there is no slot ", operand.slot));
  }
  const Slot& slot = set_->slot(program, operand.slot);
  if (groups.size(operand.shard_group) != set_->groups.of(operand.shard_group)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program was made for a group ", Name(operand.shard_group), " of ",
                     set_->groups.of(operand.shard_group), ", this rank's has ",
                     groups.size(operand.shard_group)));
  }
  BoundOperand bound;
  bound.shard_index = groups.index(operand.shard_group);
  bound.bytes = operand.bytes;
  bound.offset = operand.offset + operand.shard_stride * bound.shard_index;
  if (bound.offset < 0 || bound.bytes < 0 || bound.offset + bound.bytes > slot.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("bytes [", bound.offset, ", ",
                                                   bound.offset + bound.bytes, ") are outside ",
                                                   slot.name, ", which has ", slot.bytes));
  }
  bound.slot = arenas_[static_cast<int>(slot.tier)].data() +
               set_->placement(program, operand.slot).at(applied, operand.version);
  bound.data = bound.slot + bound.offset;
  return bound;
}

absl::Span<std::byte> AddressMap::Bytes(int slot, int version, int64_t applied) const {
  return absl::MakeSpan(arenas_[static_cast<int>(set_->slots[slot].tier)].data() +
                            set_->placements[slot].at(applied, version),
                        set_->slots[slot].bytes);
}

}  // namespace strata::worker
