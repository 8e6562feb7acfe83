// Replacements against what a person would try: each whole group that lost ranks, elsewhere.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/random_cases.h"
#include "scheduler/placement/validate.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

constexpr size_t kContext = 1;
constexpr size_t kPipeline = 3;

// A job that lost a node.
struct Loss {
  Cluster cluster;
  Shape shape;
  Occupancy occupancy;  // without the node; what the job holds is free
  Placement old;        // node -1 for lost ranks
  int node = -1;
};

// Zones of a few domains of one or two nodes, each node one tensor group or two.
Cluster RandomCluster(Draw& draw, int devices) {
  topology::Description description;
  description.levels = {"zone", "domain"};
  description.links["root"] = {1e9, 1e-5, 1};
  description.links["zone"] = {1e10, 1e-6, 1};
  const int zones = draw.Between(2, 4);
  const int trays = draw.Between(1, 2);
  for (int zone = 0; zone < zones; ++zone) {
    const int nodes = draw.Between(2, 6);
    for (int i = 0; i < nodes; ++i) {
      topology::Node node = {.name = absl::StrCat("z", zone, "n", i), .kind = "h100"};
      node.devices = devices;
      for (int device = 0; device < devices; ++device) node.free.push_back(device);
      node.at = {absl::StrCat("z", zone), absl::StrCat("d", i / trays)};
      description.nodes.push_back(std::move(node));
    }
  }
  auto cluster = Cluster::Make(std::move(description));
  STRATA_CHECK(cluster.ok());
  return *std::move(cluster);
}

Shape RandomShape(Draw& draw, int tensor) {
  Shape shape;
  shape.device = "h100";
  shape.degrees = {tensor, draw.Between(1, 2), 1, draw.Between(1, 4), draw.Between(1, 3), 1};
  for (planner::EdgeTraffic& edge : shape.traffic) {
    edge.next_bytes = 2 * draw.Between(1, 20);
    if (draw.Chance(50)) edge.previous_bytes = edge.next_bytes;
    if (draw.Chance(30)) edge.pattern = planner::EdgeTraffic::Pattern::kLine;
  }
  return shape;
}

// Other jobs hold some nodes; some of those end, and others come, before a node of this one fails.
std::optional<Loss> RandomLoss(uint64_t seed) {
  Draw draw(seed);
  const int tensor = draw.Between(1, 2);
  Loss loss = {.cluster = RandomCluster(draw, draw.Chance(50) ? tensor : 2 * tensor),
               .shape = RandomShape(draw, tensor)};
  Occupancy before = Occupancy::Ideal(loss.cluster);
  const int busy = draw.Below(70);
  for (uint64_t& free : before.free) {
    if (draw.Chance(busy)) free = 0;
  }
  const auto placed = Place(loss.cluster, before, loss.shape);
  if (!placed) return std::nullopt;
  loss.old = *placed;
  loss.node = placed->ranks[draw.Below(static_cast<int>(placed->ranks.size()))].node;
  loss.occupancy = Occupancy::Ideal(loss.cluster);
  const int busy_now = draw.Below(70);
  for (uint64_t& free : loss.occupancy.free) {
    if (draw.Chance(busy_now)) free = 0;
  }
  for (Device& device : loss.old.ranks) {
    loss.occupancy.free[device.node] |= uint64_t{1} << device.device;
    if (device.node == loss.node) device = {};
  }
  loss.occupancy.free[loss.node] = 0;
  return loss;
}

using Ranks = std::set<size_t>;

// Lost ranks and all that share the coordinates of one in the dimensions other than `along`.
Ranks GroupsOfLost(const Loss& loss, const std::vector<size_t>& along) {
  const auto key = [&](size_t rank) {
    planner::Degrees at =
        CoordinatesOf(static_cast<int64_t>(rank), loss.shape.degrees, loss.old.order);
    for (const size_t dimension : along) at[dimension] = 0;
    return std::vector<int64_t>(at.begin(), at.end());
  };
  std::set<std::vector<int64_t>> lost;
  for (size_t rank = 0; rank < loss.old.ranks.size(); ++rank) {
    if (loss.old.ranks[rank].node < 0) lost.insert(key(rank));
  }
  Ranks ranks;
  for (size_t rank = 0; rank < loss.old.ranks.size(); ++rank) {
    if (lost.count(key(rank)) > 0) ranks.insert(rank);
  }
  return ranks;
}

// Lost ranks and those in the same group of `depth` as the node was.
Ranks RanksBeside(const Loss& loss, int depth) {
  Ranks ranks;
  for (size_t rank = 0; rank < loss.old.ranks.size(); ++rank) {
    const int node = loss.old.ranks[rank].node;
    if (node < 0 || loss.cluster.GroupOf(node, depth) == loss.cluster.GroupOf(loss.node, depth)) {
      ranks.insert(rank);
    }
  }
  return ranks;
}

// The ranks one after the other on what is free between two nodes, whole tensor groups on a node.
std::optional<Placement> MovedTo(const Loss& loss, const Ranks& ranks, int first, int end) {
  Placement moved = loss.old;
  std::vector<uint64_t> free = loss.occupancy.free;
  for (size_t rank = 0; rank < moved.ranks.size(); ++rank) {
    const Device& device = moved.ranks[rank];
    if (ranks.count(rank) == 0) free[device.node] &= ~(uint64_t{1} << device.device);
  }
  const int tensor = static_cast<int>(loss.shape.degrees[0]);
  const uint64_t whole = (uint64_t{1} << tensor) - 1;
  int node = first, at = 0;
  for (const size_t rank : ranks) {
    const int t = static_cast<int>(rank) % tensor;  // tensor comes first in every order
    if (t == 0) {
      while (node < end && (free[node] >> at & whole) != whole) {
        at += tensor;
        if (at < loss.cluster.nodes()[node].devices) continue;
        ++node;
        at = 0;
      }
      if (node == end) return std::nullopt;
      free[node] &= ~(whole << at);
    }
    moved.ranks[rank] = {node, at + t};
  }
  moved.spares.clear();
  moved.cost = CostOf(loss.cluster, loss.shape, moved.order, moved.ranks);
  return moved;
}

int KeptAmong(const Loss& loss, const Ranks& ranks) {
  return static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](size_t rank) { return loss.old.ranks[rank].node >= 0; }));
}

// Pipelines and context groups of which ranks with a node lie in several zones, by dimension and
// the coordinates that their ranks share.
using Torn = std::set<std::pair<size_t, std::vector<int64_t>>>;
Torn TornIn(const Loss& loss, const std::vector<Device>& ranks) {
  Torn torn;
  for (const size_t dimension : {kPipeline, kContext}) {
    std::map<std::vector<int64_t>, int> zone_of;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].node < 0) continue;
      planner::Degrees at =
          CoordinatesOf(static_cast<int64_t>(rank), loss.shape.degrees, loss.old.order);
      at[dimension] = at[0] = 0;
      const std::vector<int64_t> group(at.begin(), at.end());
      const int zone = loss.cluster.GroupOf(ranks[rank].node, loss.cluster.pipeline_depth());
      if (zone_of.emplace(group, zone).first->second != zone) torn.insert({dimension, group});
    }
  }
  return torn;
}

// Ranks that were not lost and would move, of the smallest group that can go to one zone as a whole
// with nothing torn that was not already.
std::optional<int> LeastMovedWhole(const Loss& loss) {
  const Cluster& cluster = loss.cluster;
  const std::vector<Ranks> groups = {GroupsOfLost(loss, {0}), GroupsOfLost(loss, {0, kPipeline}),
                                     GroupsOfLost(loss, {0, kPipeline, kContext}),
                                     RanksBeside(loss, cluster.domain_depth()),
                                     RanksBeside(loss, cluster.pipeline_depth())};
  const Torn before = TornIn(loss, loss.old.ranks);
  std::optional<int> least;
  for (const Ranks& ranks : groups) {
    for (const topology::Group& zone : cluster.groups()) {
      if (zone.depth != cluster.pipeline_depth()) continue;
      const auto moved = MovedTo(loss, ranks, zone.first_node, zone.end_node);
      if (!moved) continue;
      const Torn after = TornIn(loss, moved->ranks);
      if (!std::includes(before.begin(), before.end(), after.begin(), after.end())) continue;
      const int kept = KeptAmong(loss, ranks);
      if (!least || kept < *least) least = kept;
    }
  }
  return least;
}

TEST(Replace, FindsWhateverAWholeGroupElsewhereWouldSolveAndMovesNoMore) {
  int solvable = 0, with_moves = 0;
  for (int seed = 0; seed < 6000; ++seed) {
    const auto loss = RandomLoss(seed);
    if (!loss) continue;
    Occupancy beside = loss->occupancy;
    for (const Device& device : loss->old.ranks) {
      if (device.node >= 0) beside.free[device.node] &= ~(uint64_t{1} << device.device);
    }
    const auto found = Replace(loss->cluster, beside, loss->shape, loss->old, {});
    const auto least = LeastMovedWhole(*loss);
    if (found) {
      const absl::Status valid = Validate(loss->cluster, loss->occupancy, loss->shape, *found);
      // What was split before, with less room, may stay so.
      EXPECT_TRUE(valid.ok() || found->cost.split_pipelines <= loss->old.cost.split_pipelines)
          << "seed " << seed << ": " << valid;
    }
    if (!least) continue;
    ++solvable;
    with_moves += *least > 0;
    ASSERT_TRUE(found.has_value()) << "seed " << seed;
    EXPECT_LE(std::pair(found->cost.split_pipelines, found->cost.split_contexts),
              std::pair(loss->old.cost.split_pipelines, loss->old.cost.split_contexts))
        << "seed " << seed;
    int moved = 0;
    for (size_t rank = 0; rank < loss->old.ranks.size(); ++rank) {
      const Device& was = loss->old.ranks[rank];
      moved += was.node >= 0 && !(found->ranks[rank] == was);
    }
    EXPECT_LE(moved, *least) << "seed " << seed;
  }
  EXPECT_GT(solvable, 1000);
  EXPECT_GT(with_moves, 50);
}

}  // namespace
}  // namespace strata::scheduler
