// Which versioned slots need two places. Internal to the layout.
#ifndef STRATA_PROGRAM_PASSES_VERSIONS_H_
#define STRATA_PROGRAM_PASSES_VERSIONS_H_

#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// Which versioned slots need bytes of their own for each version: those of which something uses
// version s, in list order, on bytes of which s+1 has begun to be written (one action may read s
// and write s+1 on the very same bytes), or of which s+1 is written even where the step will not be
// applied, so that s must stay.
// `two_copies`: per slot of the set; set where true, otherwise left.
void FindSlotsWithTwoCopies(const ProgramSet& set, const Program& program,
                            std::vector<bool>& two_copies);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_VERSIONS_H_
