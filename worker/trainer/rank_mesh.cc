#include "worker/trainer/rank_mesh.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "program/ir/types.h"

namespace strata::worker {

using program::Axis;

absl::StatusOr<program::Mesh> MeshOf(const program::GroupSizes& groups,
                                     const v1::TrainerTask& task) {
  // As placements call them: "data" is a rank's place in its shard group, or in the whole data
  // group where nothing is sharded, and then there is nothing to replicate.
  const bool sharded = groups.shard > 1;
  const std::pair<const char*, Axis> names[] = {
      {"tensor", Axis::kTensor},
      {"context", Axis::kContext},
      {"expert", Axis::kExpert},
      {"pipeline", Axis::kStage},
      {"data", sharded ? Axis::kShard : Axis::kReplica},
      {"replicate", sharded ? Axis::kReplica : Axis::kShard}};
  program::Mesh mesh{.sizes = groups};
  std::vector<Axis> order;
  for (const std::string& name : task.rank_order()) {
    for (const auto& [known, axis] : names) {
      if (name == known) order.push_back(axis);
    }
  }
  const bool each_once =
      task.rank_order_size() == program::kAxisCount &&
      std::is_permutation(order.begin(), order.end(), mesh.order.begin(), mesh.order.end());
  if (task.rank_order_size() > 0 && !each_once) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the order of ranks names tensor, context, expert, pipeline, data and replicate once each, "
        "not ",
        absl::StrJoin(task.rank_order(), ", "), ": agent and trainer are of different versions"));
  }
  if (each_once) std::copy(order.begin(), order.end(), mesh.order.begin());
  if (mesh.ranks() == task.ranks()) return mesh;
  return absl::InvalidArgumentError(
      absl::StrCat("parallel: ", mesh.ranks(), " ranks, started are ", task.ranks()));
}

}  // namespace strata::worker
