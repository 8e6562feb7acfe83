// Slots and operands: what instructions work on.
#ifndef STRATA_PROGRAM_IR_OPERAND_H_
#define STRATA_PROGRAM_IR_OPERAND_H_

#include <cstdint>
#include <string>

#include "program/ir/types.h"

namespace strata::program {

inline constexpr int64_t kSlotAlignment = 64;  // bytes; a cache line and the widest vector

// The axes that a value is still a partial sum over; a reduction over a group clears the group's.
// 0: complete.
using Partial = Axes;
constexpr Partial PartialOver(Group group) { return group.axes; }
std::string PartialName(Partial partial);  // "data and tensor"; "complete"

// A region of memory with a lifetime. Persistent slots hold their contents across steps and
// programs (state, constants); transient ones only from their first to their last use inside a
// step, and the layout may reuse their bytes. In a versioned slot an update reads version s and
// writes s+1; the layout decides whether both share bytes.
struct Slot {
  std::string name;
  Tier tier = Tier::kHost;
  SlotClass klass = SlotClass::kActivations;
  int64_t bytes = 0;
  int64_t alignment = kSlotAlignment;
  bool persistent = false;
  bool versioned = false;
  // What a forward keeps for its backward: which of the stage's passes keeps it (a micro-batch's
  // through one of its chunks, numbered in any way); -1: nothing of the kind.
  int pass = -1;
  // Of persistent slots, for the memory report: what it holds in which numbers, "master, f32".
  std::string content = {};
};

// A byte range of a slot. In a template `slot` counts formals first, then locals; in an instruction
// it is a slot of the program set or program. Where the range depends on the rank, it moves by
// shard_stride × (index in shard_group).
struct Operand {
  int slot = -1;
  int64_t offset = 0;
  int64_t bytes = 0;
  Access access = Access::kRead;
  int version = 0;      // versioned slots: 0 the step's own version, 1 the next
  Partial partial = 0;  // reads: what the bytes must be; writes: what they become
  Group shard_group = Group::kNone;
  int64_t shard_stride = 0;

  bool reads() const { return access != Access::kWrite; }
  bool writes() const { return access != Access::kRead; }
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_OPERAND_H_
