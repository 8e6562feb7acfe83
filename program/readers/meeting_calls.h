// Programs with calls as units, for the machine that looks for deadlocks.
#ifndef STRATA_PROGRAM_READERS_MEETING_CALLS_H_
#define STRATA_PROGRAM_READERS_MEETING_CALLS_H_

#include <optional>
#include <string>
#include <vector>

#include "program/ir/mesh.h"
#include "program/passes/expand.h"

namespace strata::program {

// Per stage: one action per instruction, without operands. A call stands for its ops on all streams
// that they use: it waits for the instruction before it on each, and the next on each waits for it.
// So whatever goes through with calls as units goes through op by op; the reverse need not hold.
// Nothing: a call communicates with other stages, or a stage has no such program.
std::optional<std::vector<ExpandedProgram>> CallsThatMeet(
    const std::vector<const ProgramSet*>& stages, const std::string& program, const Mesh& mesh);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_MEETING_CALLS_H_
