// Which waits of compute a program does not need.
#ifndef STRATA_PROGRAM_TESTING_OVERLAP_H_
#define STRATA_PROGRAM_TESTING_OVERLAP_H_

#include <string>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// Dependencies of instructions on the compute stream on instructions of other streams whose slots
// they have nothing to do with (directly or through others), and with fewer than `horizon` calls
// between them that compute more than they move: each as a line. These wait for bytes alone.
std::vector<std::string> UnneededWaits(const ProgramSet& set, const Program& program, int horizon);

// The same for a template's ops on the caller's stream, with fewer than `horizon` products between.
std::vector<std::string> UnneededWaits(const Template& tmpl, const GroupSizes& groups, int horizon);

// The set as it was before LayOut; templates keep dependencies that the layout gave their ops.
ProgramSet WithoutLayout(ProgramSet set);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_TESTING_OVERLAP_H_
