// The parts of a plan that follow from compiled programs.
#ifndef STRATA_WORKER_TRAINER_PROGRAM_DIGEST_H_
#define STRATA_WORKER_TRAINER_PROGRAM_DIGEST_H_

#include <string>
#include <vector>

#include "program/ir/mesh.h"
#include "program/ir/program.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// The arenas of all stages, whose ranks are those of the mesh.
void DescribeArenas(const std::vector<const program::ProgramSet*>& stages,
                    const program::Mesh& mesh, v1::JobPlan& plan);

// What this rank says to the agent before it starts, its address apart. `set`: of its stage.
v1::Prepared DescribeRank(const program::ProgramSet& set, const std::string& plan_digest,
                          const std::string& build, const program::Mesh& mesh, int rank);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_PROGRAM_DIGEST_H_
