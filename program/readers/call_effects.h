// What the ops of one template do to formals that lie in given places. Internal to CallsAsUnits.
#ifndef STRATA_PROGRAM_READERS_CALL_EFFECTS_H_
#define STRATA_PROGRAM_READERS_CALL_EFFECTS_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/ir/program.h"
#include "program/readers/calls.h"

namespace strata::program {

// A formal's binding as far as it matters to what happens inside. Formals that share bytes are in
// one space.
struct BoundFormal {
  int space = -1;
  int64_t begin = 0;  // in the space
  int slot = -1;      // the same number for the same slot of the same space
  int version = 0;
  Partial partial = 0;
  bool sharded = false;  // the binding says where the rank's part is, not the op

  auto operator<=>(const BoundFormal&) const = default;
};

// Bytes [begin, end) from where the formal is bound.
struct FormalEffect {
  int formal = -1;
  int64_t begin = 0, end = 0;
  Partial partial = 0;
};

struct CallEffects {
  std::vector<FormalEffect> reads;   // of what was there before the call
  std::vector<FormalEffect> writes;  // that are left after it
  int64_t frame_begin = 0, frame_end = 0;
};

// Nothing where CallsAsUnits says so.
std::optional<CallEffects> FollowCall(const Template& tmpl, const std::vector<BoundFormal>& formals,
                                      const GroupSizes& groups, const ShardIndices& indices);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_CALL_EFFECTS_H_
