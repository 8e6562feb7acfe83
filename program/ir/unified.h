// Unified memory in programs: bytes with one address for host and device, whose pages are on one of
// them at a time.
//
// Such bytes are at home in a slot of the host tier. On the device they take a *room*: a transient
// slot of the device tier, as large, in which calls use them. A transfer from home to room is a
// prefetch of the pages, one from room to home brings them back; nothing is copied, and what works
// on a room works on the home's own bytes. So programs read as those do whose bytes are copied:
// rooms say how much of the device is taken, by what, and who waits for whom.
//
// Homes and rooms are told by their alignment, which gives them pages of their own. The layout puts
// them behind all else in their tiers, as neither lies in the tier's arena.
#ifndef STRATA_PROGRAM_IR_UNIFIED_H_
#define STRATA_PROGRAM_IR_UNIFIED_H_

#include <algorithm>
#include <cstdint>

#include "program/ir/program.h"

namespace strata::program {

// A multiple of what drivers move together: 4 KiB on x86, 64 KiB on Grace.
inline constexpr int64_t kUnifiedPage = int64_t{64} << 10;

inline bool IsUnified(const Slot& slot) {
  return slot.tier != Tier::kSsd && slot.alignment >= kUnifiedPage;
}

// Pages that bytes of a unified slot lie on, from its begin on.
inline int64_t UnifiedPages(int64_t bytes) { return (bytes + kUnifiedPage - 1) / kUnifiedPage; }

// Where homes, or rooms, begin in their tier; the arena's end where there are none. Laid out.
inline int64_t UnifiedBegin(const ProgramSet& set, Tier tier) {
  int64_t begin = set.arena(tier);
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Slot& slot = set.slots[s];
    if (slot.tier == tier && IsUnified(slot)) begin = std::min(begin, set.placements[s].offset);
  }
  for (const Program& program : set.programs) {
    for (size_t s = 0; s < program.slots.size(); ++s) {
      const Slot& slot = program.slots[s];
      if (slot.tier != tier || !IsUnified(slot)) continue;
      begin = std::min(begin, program.placements[s].offset);
    }
  }
  return begin;
}

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_UNIFIED_H_
