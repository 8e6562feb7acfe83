// Programs are not believed: each rank verifies its own before it joins the others.
#ifndef STRATA_WORKER_TRAINER_VERIFICATION_H_
#define STRATA_WORKER_TRAINER_VERIFICATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "program/ir/mesh.h"
#include "program/ir/program.h"

namespace strata::worker {

// Every program of `own`, the set of this rank's stage, as this rank of the mesh will run it; then,
// where `stages` has the sets of all stages, all ranks' together. Internal: the compiler made a
// program that must not run; names the instructions concerned.
absl::Status VerifyPrograms(const program::ProgramSet& own,
                            const std::vector<const program::ProgramSet*>& stages,
                            const program::Mesh& mesh, int rank);

// "train and evaluate".
std::string ProgramNames(const program::ProgramSet& set);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_VERIFICATION_H_
