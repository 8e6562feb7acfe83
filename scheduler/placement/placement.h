// Where a job's ranks go: which devices, and which rank on which of them. Pure and deterministic:
// the same cluster, occupancy and shape give the same answer.
//
// Hard rules, in this order: a tensor group lies inside one group of the cluster's domain level; a
// tensor coordinate has the same local device index (modulo the tensor degree) on every node; all
// devices are of one kind; as few pipelines as possible, then as few context groups as possible,
// lie across groups of the pipeline level. Among what obeys them: fewest bytes per step at the
// root, then at the outermost level, and so on inwards; ties by predicted exposed time, then by
// names. The constraints of a shape's topology come before all but the first three; preferred ones
// are given up from the last one on until the job fits.
#ifndef STRATA_SCHEDULER_PLACEMENT_PLACEMENT_H_
#define STRATA_SCHEDULER_PLACEMENT_PLACEMENT_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/traffic.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Each run of so many ranks, in rank order, lies inside one group of a level.
struct TopologyConstraint {
  int64_t ranks = 1;
  std::string within;      // a level of the cluster, or "node"
  bool preferred = false;  // given up where the job does not fit with it
  friend auto operator<=>(const TopologyConstraint&, const TopologyConstraint&) = default;
};

// What a job asks of a cluster.
struct Shape {
  planner::Degrees degrees = {1, 1, 1, 1, 1, 1};
  planner::Traffic traffic = {};
  std::string device = "cpu";  // a kind, or "gpu": any one kind but cpu
  int64_t spares = 0;          // nodes beside the job's
  // Smaller data degrees (data · replicate) that it could run with too, descending.
  std::vector<int64_t> fewer_data = {};
  // Smaller data degrees that its file may ask for instead, descending; empty: fewer_data and the
  // divisors of its own.
  std::vector<int64_t> other_data = {};
  // Ranks of a job that has any are numbered canonically: tensor, context, expert, pipeline, data,
  // replicate. Runs are whole tensor groups or parts of one, and each divides the larger ones. A
  // run of more ranks than the job has is all of it.
  std::vector<TopologyConstraint> topology = {};

  int64_t ranks() const;
};

// Which devices may be taken, by node: bit d is device d.
struct Occupancy {
  std::vector<uint64_t> free;
  static Occupancy Now(const topology::Cluster& cluster);    // free ones of healthy nodes
  static Occupancy Ideal(const topology::Cluster& cluster);  // all
};

struct Device {
  int node = -1;  // index into the cluster's nodes()
  int device = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

struct Cost {
  // Per step, each byte once, at the nearest common level of its ends; by accounted depth, so of
  // size node_depth() + 1 (see Cluster::AccountedDepth).
  std::vector<double> bytes;
  double exposed_seconds = 0;   // predicted communication of a step that computation does not hide
  int64_t split_pipelines = 0;  // that lie across groups of the pipeline level
  int64_t split_contexts = 0;   // context groups likewise
};

// Whether `a` is the better one by the order above; costs of one shape on one cluster.
bool Better(const Cost& a, const Cost& b);

struct Placement {
  // Innermost first; all six, those of degree 1 too (they stand where the canonical order has
  // them). rank = Σ coordinate · product of the degrees of the dimensions before it.
  std::vector<planner::Dimension> order;
  std::vector<Device> ranks;  // by rank
  std::vector<int> spares;    // nodes; fewer than asked for when there are no more
  std::string kind;           // of the devices
  Cost cost;
};

// Coordinates of a rank.
planner::Degrees CoordinatesOf(int64_t rank, const planner::Degrees& degrees,
                               const std::vector<planner::Dimension>& order);

// Nothing: the occupancy does not hold the job.
std::optional<Placement> Place(const topology::Cluster& cluster, const Occupancy& occupancy,
                               const Shape& shape);

// Counts a given rank map; the map need not obey the rules.
Cost CostOf(const topology::Cluster& cluster, const Shape& shape,
            const std::vector<planner::Dimension>& order, const std::vector<Device>& ranks);

// The same devices in other orders, for comparison: "contiguous" (tensor, context, expert,
// pipeline, data, replicate over the topology order), "random" (cells of one tensor group shuffled
// by seed 1), "hostname" (nodes by plain string order of their names, as launchers that sort host
// names do).
struct OtherOrder {
  std::string name;
  std::vector<planner::Dimension> order;
  std::vector<Device> ranks;
};
std::vector<OtherOrder> OtherOrders(const topology::Cluster& cluster, const Shape& shape,
                                    const Placement& placement);
struct Comparison {
  std::string name;
  Cost cost;
};
std::vector<Comparison> CompareOrders(const topology::Cluster& cluster, const Shape& shape,
                                      const Placement& placement);

// After ranks were lost: `old` is by rank, with node -1 for those that need a new device. Lost
// ranks go, together as they were on their nodes, to the same domain, else the same group of the
// pipeline level (`prefer`: nodes to try first, the job's spares); all others stay. Where that has
// no room, the smallest whole group goes elsewhere: the tensor group, else its pipeline, context
// group, all pipelines of the context group, or all that the job has there. Nothing: there is no
// room, or more pipelines would be split than in a placement anew.
std::optional<Placement> Replace(const topology::Cluster& cluster, const Occupancy& occupancy,
                                 const Shape& shape, const Placement& old,
                                 const std::vector<int>& prefer);

// What `strata place` and the controller tell of a job that could not be placed now.
struct Refusal {
  bool infeasible = false;  // not even with every node healthy and every device free
  std::string reason;       // with the arithmetic
  std::string starts_when;  // of a waiting job: what would have to become free or healthy
  // Of an infeasible one: the nearest that fits an empty cluster; absent when nothing does.
  struct Nearest {
    planner::Degrees degrees;
    int64_t ranks = 0;
    std::string device;  // of another kind than asked for, as no node has that; otherwise empty
    std::string text;    // "data 6 instead of 8: 48 of 64 ranks"
  };
  std::optional<Nearest> nearest;
};
// `held_back`: devices that are free, not for this job, and not in `occupancy`.
Refusal WhyNot(const topology::Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
               const Occupancy& held_back = {});

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_PLACEMENT_H_
