#include "worker/engine/address_map.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "memory/numa.h"
#include "program/ir/unified.h"

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
    const int64_t arena = set.arena(slots[s].tier);
    if (place.copies < 1 || place.offset < 0 || place.stride < 0 || end > arena) {
      return absl::InvalidArgumentError(
          absl::StrCat("slot ", slots[s].name, " ends at byte ", end, " of an arena of ", arena));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AddressMap> AddressMap::Create(const program::ProgramSet& set,
                                              device::Device* device,
                                              device::UnifiedMemory* unified, bool fixed) {
  RETURN_IF_ERROR(CheckPlacements(set.slots, set.placements, set));
  for (const program::Program& program : set.programs) {
    RETURN_IF_ERROR(CheckPlacements(program.slots, program.placements, set));
  }
  AddressMap map(set, device);
  for (int t = 0; t < program::kTierCount; ++t) {
    const auto tier = static_cast<Tier>(t);
    map.unified_begin_[t] = program::UnifiedBegin(set, tier);
    map.unified_bytes_[t] = set.arena_bytes[t] - map.unified_begin_[t];
    ASSIGN_OR_RETURN(map.arenas_[t],
                     memory::Arena::Reserve(device, MemoryOf(tier), map.unified_begin_[t], fixed));
  }
  RETURN_IF_ERROR(map.ReserveUnified(unified));
  if (map.unified_bytes_ == decltype(map.unified_bytes_){}) return map;
  for (const program::Program& program : set.programs) RETURN_IF_ERROR(map.FindHomes(program));
  return map;
}

absl::Status AddressMap::ReserveUnified(device::UnifiedMemory* unified) {
  const int64_t bytes = unified_bytes_[static_cast<int>(Tier::kHost)];
  if (bytes == 0) return absl::OkStatus();
  if (unified == nullptr) {
    return absl::UnimplementedError(
        "the rank computes on the CPU, and unified memory is a GPU's: place these bytes on host");
  }
  ASSIGN_OR_RETURN(std::byte* const data, unified->Reserve(bytes));
  unified_ = Unified(data, [unified](std::byte* begin) { unified->Release(begin); });
  return absl::OkStatus();
}

absl::Status AddressMap::FindHomes(const program::Program& program) {
  const int shared = static_cast<int>(set_->slots.size());
  std::vector<program::Operand>& homes = homes_.emplace_back(program.slots.size());
  for (const program::Instruction& instruction : program.instructions) {
    if (instruction.mechanism != program::Mechanism::kTransfer) continue;
    if (instruction.operands.size() != 2) continue;  // refused where it is bound
    for (const int room : {0, 1}) {
      const program::Operand& here = instruction.operands[room];
      const program::Operand& there = instruction.operands[1 - room];
      const Slot& slot = set_->slot(program, here.slot);
      if (slot.tier != Tier::kDevice || !program::IsUnified(slot) || here.slot < shared) continue;
      program::Operand& home = homes[here.slot - shared];
      // The next version has the same bytes: there is one copy.
      const bool fits = there.slot < shared && program::IsUnified(set_->slots[there.slot]) &&
                        set_->placements[there.slot].copies == 1 && here.offset == 0 &&
                        here.bytes == slot.bytes && there.offset % program::kUnifiedPage == 0 &&
                        there.shard_group == program::Group::kNone;
      const bool same = home.slot < 0 || (home.slot == there.slot && home.offset == there.offset);
      if (!fits || !same) {
        return absl::InvalidArgumentError(
            absl::StrCat(instruction.label, ": ", slot.name,
                         " is not the room of whole pages of one home in unified memory"));
      }
      home = there;
    }
  }
  return absl::OkStatus();
}

absl::Status AddressMap::Commit(int host_node) {
  for (int t = 0; t < program::kTierCount; ++t) {
    const auto tier = static_cast<Tier>(t);
    const memory::NodeScope near(tier == Tier::kHost ? host_node : -1);
    if (tier != Tier::kSsd) RETURN_IF_ERROR(arenas_[t].Commit());
    if (tier == Tier::kHost && unified_ != nullptr)
      std::memset(unified_.get(), 0, unified_bytes_[t]);
  }
  return absl::OkStatus();
}

bool AddressMap::IsHostAccessible(const Slot& slot) const {
  return slot.tier != Tier::kSsd && !program::IsUnified(slot) &&
         device_->IsHostAccessible(MemoryOf(slot.tier));
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
  const int64_t at = set_->placement(program, operand.slot).at(applied, operand.version);
  if (slot.tier == Tier::kDevice && program::IsUnified(slot)) {
    const program::Operand& home = homes_[&program - set_->programs.data()]
                                         [operand.slot - static_cast<int>(set_->slots.size())];
    if (home.slot < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("nothing brings pages to the room ", slot.name));
    }
    bound.slot = Bytes(home.slot, 0, applied).data() + home.offset;
  } else {
    bound.slot = At(slot, at);
  }
  bound.data = bound.slot + bound.offset;
  return bound;
}

std::byte* AddressMap::At(const Slot& slot, int64_t offset) const {
  const int tier = static_cast<int>(slot.tier);
  return program::IsUnified(slot) ? unified_.get() + (offset - unified_begin_[tier])
                                  : arenas_[tier].data() + offset;
}

absl::Span<std::byte> AddressMap::Bytes(int slot, int version, int64_t applied) const {
  const Slot& of = set_->slots[slot];
  return absl::MakeSpan(At(of, set_->placements[slot].at(applied, version)), of.bytes);
}

}  // namespace strata::worker
