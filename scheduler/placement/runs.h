// Constraints of a job's topology: runs of ranks that lie inside one group of a level each.
#ifndef STRATA_SCHEDULER_PLACEMENT_RUNS_H_
#define STRATA_SCHEDULER_PLACEMENT_RUNS_H_

#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// Of groups of the level, node_depth() for "node"; -1: the cluster has no such level.
int DepthOfLevel(const topology::Cluster& cluster, const std::string& level);

// Whether canonically numbered ranks obey the constraint.
bool Obeys(const topology::Cluster& cluster, const TopologyConstraint& constraint,
           const std::vector<Device>& ranks);
// All that are required.
bool ObeysAll(const topology::Cluster& cluster, const Shape& shape,
              const std::vector<Device>& ranks);

// The rails with pieces that obey constraints whose runs are parts of a tensor group inside one
// node, or inside another group that is smaller than a domain.
Rails WithPieces(const topology::Cluster& cluster, const Shape& shape, Rails rails);

// Runs of whole cells, one level of nesting: each run of the level before (or the job) consists of
// whole ones of this level.
struct RunLevel {
  int cells = 1;  // of a run
  int depth = 0;  // of the group that it lies in
};
// The required constraints as nested levels, outermost first, the last one {1, node_depth()}; those
// that others imply, or that tensor groups obey by the choice of their rails, are left out.
// Nothing: no placement can obey them.
std::optional<std::vector<RunLevel>> RunLevelsOf(const topology::Cluster& cluster,
                                                 const Shape& shape);

// Gives cells of a job's grid nodes, run by run from the outermost level inwards; those that have
// one already stay, and their runs' groups with them.
class RunPacker {
 public:
  // Borrows all. `cells`: free ones. `node_of`: by cell of the grid, -1 without a node.
  RunPacker(const topology::Cluster& cluster, const std::vector<RunLevel>& levels, const Grid& grid,
            const Cells& cells, std::vector<int> node_of, const std::vector<char>* preferred);

  // False: there is not enough room.
  bool Run();
  const std::vector<int>& node_of() const { return node_of_; }
  // How many runs of the level the free cells hold.
  int Capacity(size_t level) const;

 private:
  struct Range {
    int first = 0, end = 0;  // nodes
  };

  Range RangeOf(int node, int depth) const;
  int UnitsIn(size_t level, Range range) const;
  int UnitsInGroup(size_t level, Range group) const;
  // `units` runs of the level, none of whose cells has a node, from this cell on.
  bool Pack(size_t level, Range range, int from, int units);
  // The node where each of the units' groups begins; the range holds them.
  std::vector<int> GroupsFor(size_t level, Range range, int from, int units);
  Grid GridOfUnits(size_t level, int from, int units) const;
  bool FillRuns(size_t level);
  int Lost(int from, int cells) const;

  const topology::Cluster& cluster_;
  const std::vector<RunLevel>& levels_;
  const Grid& grid_;
  std::vector<int> left_;  // free cells by node
  std::vector<int> node_of_;
  const std::vector<char>* preferred_;  // nodes to take first; null: none
  int searches_ = 0;
};

// WhyNot for a job that would fit but for the constraints.
Refusal WhyNotInRuns(const topology::Cluster& cluster, const Occupancy& occupancy,
                     const Shape& shape);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_PLACEMENT_RUNS_H_
