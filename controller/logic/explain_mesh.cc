#include "controller/logic/explain_mesh.h"

#include <algorithm>
#include <vector>

#include "controller/logic/job_shape.h"
#include "planner/dimension_names.h"
#include "scheduler/placement/placement.h"

namespace strata::controller {

void ExplainMesh(const v1::JobRecord& job, v1::ExplainJobResponse& response) {
  constexpr int kMostRanks = 1024;
  const planner::Degrees degrees = ShapeOf(job, job.layout().data()).degrees;
  const std::vector<planner::Dimension> order = OrderOf(job.layout().order());
  for (const planner::Dimension dimension : order) {
    if (!planner::IsTold(degrees, dimension)) continue;
    v1::ExplainJobResponse::Dimension& told = *response.add_mesh();
    told.set_name(planner::NameIn(degrees, dimension));
    told.set_degree(planner::DegreeIn(degrees, dimension));
  }
  for (int i = 0; i < std::min(kMostRanks, job.placement_size()); ++i) {
    const v1::RankPlace& place = job.placement(i);
    const planner::Degrees at = scheduler::CoordinatesOf(place.rank(), degrees, order);
    v1::ExplainJobResponse::Rank& told = *response.add_ranks();
    told.set_rank(place.rank());
    told.set_node(place.node());
    told.set_device(place.device());
    for (const planner::Dimension dimension : order) {
      if (!planner::IsTold(degrees, dimension)) continue;
      told.add_coordinates(planner::DegreeIn(at, dimension));
    }
  }
}

}  // namespace strata::controller
