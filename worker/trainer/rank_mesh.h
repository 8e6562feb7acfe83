// The mesh that a job's ranks form, as the placement numbered them.
#ifndef STRATA_WORKER_TRAINER_RANK_MESH_H_
#define STRATA_WORKER_TRAINER_RANK_MESH_H_

#include "absl/status/statusor.h"
#include "program/ir/mesh.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// By task.rank_order(), or, where nobody placed the ranks, in the order of a Mesh. InvalidArgument:
// the order is not all of a placement's dimensions, each once, or the task has another number of
// ranks.
absl::StatusOr<program::Mesh> MeshOf(const program::GroupSizes& groups,
                                     const v1::TrainerTask& task);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_RANK_MESH_H_
