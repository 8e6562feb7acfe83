// An oracle for the verifier: the same questions answered pair by pair and byte by byte.
#ifndef STRATA_PROGRAM_TESTING_BRUTE_FORCE_H_
#define STRATA_PROGRAM_TESTING_BRUTE_FORCE_H_

#include <string>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// Follows one step per entry of `applied` (whether its update took place) and says what is wrong
// first, or nothing: two accesses to a byte, one of them a write, of which neither must end before
// the other begins; or a read that in list order does not find what was last written as that slot
// (local, version, step, partial sum). Ranges are multiples of 8 bytes.
std::string FindFault(const ProgramSet& set, const Program& program, int shard_index,
                      const std::vector<bool>& applied, bool clipped);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_TESTING_BRUTE_FORCE_H_
