// What the layout refuses before it places anything. Internal to the layout.
#ifndef STRATA_PROGRAM_PASSES_CHECK_SET_H_
#define STRATA_PROGRAM_PASSES_CHECK_SET_H_

#include "absl/status/status.h"
#include "program/ir/program.h"

namespace strata::program {

// InvalidArgument for operands outside their slots or templates, and for references to what does
// not exist or does not come before.
absl::Status CheckSet(const ProgramSet& set);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_CHECK_SET_H_
