// Programs with calls as units: what a call does to the slots it is given, without its ops. Where
// all is well inside of a template, it is well in all its calls: the template is looked at once.
#ifndef STRATA_PROGRAM_READERS_CALLS_H_
#define STRATA_PROGRAM_READERS_CALLS_H_

#include <functional>
#include <optional>

#include "program/ir/program.h"
#include "program/passes/expand.h"

namespace strata::program {

// The rank's index in a group.
using ShardIndices = std::function<int(Group)>;

// One action per instruction, in the same order, with the instruction's own dependencies; ranges
// are those of the rank (no shard groups are left). A call reads what its ops find in their formals
// and writes what they leave there; its frame counts as written. Since a call begins after all it
// depends on and ends before all that depends on it, a program that is right with calls as units is
// right op by op; the reverse need not hold, as ops of different calls may be ordered by streams
// that they share.
//
// Nothing: some call is not right inside, or only in a way that takes looking at its ops among
// others. Ops of one call must be ordered where they meet on bytes (also where the call binds two
// formals to the same ones), read only locals that have been written, and find sums as partial as
// they take them to be. VerifyPlaces must have accepted the program.
std::optional<ExpandedProgram> CallsAsUnits(const ProgramSet& set, const Program& program,
                                            const ShardIndices& indices);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_CALLS_H_
