// The digest of a decision: the same on all ranks of a job, whatever their stages.
#ifndef STRATA_WORKER_TRAINER_PLAN_DIGEST_H_
#define STRATA_WORKER_TRAINER_PLAN_DIGEST_H_

#include <string>

#include "program/compose/composer.h"
#include "program/ir/layer_graph.h"
#include "program/ir/mesh.h"

namespace strata::worker {

// Of everything that a stage's programs are composed from: layers with their templates and sets,
// the plan's numbers, the update of each trainable set, and the build's own mark (the scratch
// formula of Plan belongs to the build); and of which rank runs which.
std::string PlanDigest(const program::LayerGraph& graph, const program::Plan& plan,
                       const program::UpdateEmitter& update, const program::Mesh& mesh,
                       const std::string& build);

// Of programs that follow from a model alone.
std::string PlanDigest(const program::LayerGraph& graph, const std::string& build);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_PLAN_DIGEST_H_
