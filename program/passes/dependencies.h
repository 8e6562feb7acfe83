// The dependencies that make the list order hold. Internal to the layout.
#ifndef STRATA_PROGRAM_PASSES_DEPENDENCIES_H_
#define STRATA_PROGRAM_PASSES_DEPENDENCIES_H_

#include "program/ir/program.h"

namespace strata::program {

// Adds those that are missing between instructions of different streams that meet on the same
// bytes, on real addresses, within the step and between consecutive steps, whether the steps are
// applied or not.
void AddDependencies(const ProgramSet& set, Program& program);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_DEPENDENCIES_H_
