// The part of the verifier that follows one rank's actions over consecutive steps.
#ifndef STRATA_PROGRAM_READERS_VERIFY_RANK_H_
#define STRATA_PROGRAM_READERS_VERIFY_RANK_H_

#include "absl/status/status.h"
#include "program/ir/program.h"
#include "program/passes/expand.h"
#include "program/readers/calls.h"

namespace strata::program {

// What VerifyRank refuses beside places, of actions that are ops or whole calls (CallsAsUnits).
absl::Status VerifyActions(const ProgramSet& set, const Program& program,
                           const ExpandedProgram& expanded, const ShardIndices& indices);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_VERIFY_RANK_H_
