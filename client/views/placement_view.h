// Placements as people and programs see them.
#ifndef STRATA_CLIENT_VIEWS_PLACEMENT_VIEW_H_
#define STRATA_CLIENT_VIEWS_PLACEMENT_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "client/views/structured.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/step_time.h"
#include "topology/cluster.h"

namespace strata::client {

// A job's place, or why it has none.
struct PlacementAnswer {
  std::optional<scheduler::Placement> placement;
  std::vector<scheduler::Comparison> compared;
  // Of a step, predicted, as placed and in the orders compared; empty: nobody knows these devices'
  // or this kind of job's.
  std::vector<scheduler::OrderTime> step_times = {};
  scheduler::Refusal refusal;  // without a placement
  double seconds = 0;          // that finding it took
  bool shard_groups = false;   // the job names parallel.shard_group: so does what is nearest
};

// CLI.md, "Placement".
Json ToJson(const topology::Cluster& cluster, const scheduler::Shape& shape,
            const PlacementAnswer& answer);

// Where the ranks are, bytes per step by level against other orders, and why this order.
std::string PlacementText(const topology::Cluster& cluster, const scheduler::Shape& shape,
                          const PlacementAnswer& answer);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_PLACEMENT_VIEW_H_
