#include "scheduler/placement/runs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "scheduler/placement/assignment.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Searches of one packing for where runs of a level go best; later ones fill groups in their order.
constexpr int kMostRunSearches = 256;

constexpr char kNodeLevel[] = "node";

// How far a run of so many cells, numbered canonically, extends along each axis; nothing: it is no
// box of the grid.
std::optional<std::array<int, kAxes>> ExtentsOf(const Grid& grid, int cells) {
  std::array<int, kAxes> extents;
  for (int i = 0; i < kAxes; ++i) {
    const int degree = grid.axes[i].degree;
    extents[i] = cells % degree == 0 ? degree : cells;
    if (degree % extents[i] != 0) return std::nullopt;
    cells /= extents[i];
  }
  if (cells != 1) return std::nullopt;
  return extents;
}

// Units that exchange bytes with the next one alone.
Grid LineOf(int units) {
  Grid line;
  line.axes[0].degree = line.cells = units;
  line.axes[0].pattern = Axis::Pattern::kLine;
  line.axes[0].weight = 1;
  return line;
}

// Larger runs that lie in a deeper group imply the constraint.
bool IsImplied(const RunLevel& level, const std::vector<RunLevel>& by_others) {
  return std::any_of(by_others.begin(), by_others.end(), [&](const RunLevel& other) {
    const bool same = other.cells == level.cells && other.depth == level.depth;
    return !same && other.cells % level.cells == 0 && other.depth >= level.depth;
  });
}

}  // namespace

int DepthOfLevel(const Cluster& cluster, const std::string& level) {
  if (level == kNodeLevel) return cluster.node_depth();
  const auto found = std::find(cluster.levels().begin(), cluster.levels().end(), level);
  return found == cluster.levels().end() ? -1
                                         : static_cast<int>(found - cluster.levels().begin()) + 1;
}

bool Obeys(const Cluster& cluster, const TopologyConstraint& constraint,
           const std::vector<Device>& ranks) {
  const int depth = DepthOfLevel(cluster, constraint.within);
  if (depth < 0) return false;
  const auto run = static_cast<size_t>(constraint.ranks);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const int node = ranks[rank].node, first = ranks[rank - rank % run].node;
    if (cluster.MeetingDepth(node, first) < depth) return false;
  }
  return true;
}

bool ObeysAll(const Cluster& cluster, const Shape& shape, const std::vector<Device>& ranks) {
  return std::all_of(shape.topology.begin(), shape.topology.end(), [&](const auto& constraint) {
    return constraint.preferred || Obeys(cluster, constraint, ranks);
  });
}

Rails WithPieces(const Cluster& cluster, const Shape& shape, Rails rails) {
  for (const TopologyConstraint& constraint : shape.topology) {
    const auto run = static_cast<int>(std::min(constraint.ranks, shape.degrees[0]));
    const int depth = DepthOfLevel(cluster, constraint.within);
    if (run == shape.degrees[0] || depth <= cluster.domain_depth()) continue;
    rails.piece = rails.chunk % run == 0 ? std::max(rails.piece, run) : rails.chunk;
  }
  return rails;
}

std::optional<std::vector<RunLevel>> RunLevelsOf(const Cluster& cluster, const Shape& shape) {
  std::vector<RunLevel> asked;
  const int64_t tensor = shape.degrees[0];
  for (const TopologyConstraint& constraint : shape.topology) {
    if (constraint.preferred) continue;
    const int64_t run = std::min(constraint.ranks, shape.ranks());
    const int depth = DepthOfLevel(cluster, constraint.within);
    if (depth < 0 || shape.ranks() % run != 0) return std::nullopt;
    if (run > tensor ? run % tensor != 0 : tensor % run != 0) return std::nullopt;
    if (run > tensor) asked.push_back({static_cast<int>(run / tensor), depth});
  }
  std::sort(asked.begin(), asked.end(), [](const RunLevel& a, const RunLevel& b) {
    return std::pair(a.cells, a.depth) > std::pair(b.cells, b.depth);
  });
  std::vector<RunLevel> levels;
  for (const RunLevel& level : asked) {
    const bool again =
        !levels.empty() && levels.back().cells == level.cells && levels.back().depth == level.depth;
    if (again || IsImplied(level, asked)) continue;
    if (!levels.empty() && levels.back().cells % level.cells != 0) return std::nullopt;
    levels.push_back(level);
  }
  levels.push_back({1, cluster.node_depth()});
  return levels;
}

RunPacker::RunPacker(const Cluster& cluster, const std::vector<RunLevel>& levels, const Grid& grid,
                     const Cells& cells, std::vector<int> node_of,
                     const std::vector<char>* preferred)
    : cluster_(cluster),
      levels_(levels),
      grid_(grid),
      node_of_(std::move(node_of)),
      preferred_(preferred) {
  for (size_t node = 0; node + 1 < cells.first.size(); ++node) {
    left_.push_back(cells.first[node + 1] - cells.first[node]);
  }
}

RunPacker::Range RunPacker::RangeOf(int node, int depth) const {
  if (depth == cluster_.node_depth()) return {node, node + 1};
  const topology::Group& group = cluster_.groups()[cluster_.GroupOf(node, depth)];
  return {group.first_node, group.end_node};
}

int RunPacker::UnitsInGroup(size_t level, Range group) const {
  if (level + 1 == levels_.size()) return left_[group.first];
  return UnitsIn(level + 1, group) / (levels_[level].cells / levels_[level + 1].cells);
}

int RunPacker::UnitsIn(size_t level, Range range) const {
  int units = 0;
  for (int node = range.first; node < range.end;) {
    const Range group = RangeOf(node, levels_[level].depth);
    units += UnitsInGroup(level, group);
    node = group.end;
  }
  return units;
}

int RunPacker::Capacity(size_t level) const {
  return UnitsIn(level, {0, static_cast<int>(left_.size())});
}

int RunPacker::Lost(int from, int cells) const {
  return static_cast<int>(std::count(node_of_.begin() + from, node_of_.begin() + from + cells, -1));
}

bool RunPacker::Run() {
  // Runs of which something is left have no choice: the smallest ones first.
  for (size_t level = levels_.size() - 1; level-- > 0;) {
    if (!FillRuns(level)) return false;
  }
  const int cells = levels_[0].cells;
  for (int from = 0; from < grid_.cells;) {
    int units = 0;
    while (from + units * cells < grid_.cells && Lost(from + units * cells, cells) == cells) {
      ++units;
    }
    if (units > 0 && !Pack(0, {0, static_cast<int>(left_.size())}, from, units)) return false;
    from += std::max(units, 1) * cells;
  }
  return true;
}

// Gives the lost parts of runs a place in the group where the rest is.
bool RunPacker::FillRuns(size_t level) {
  const int cells = levels_[level].cells, part = levels_[level + 1].cells;
  for (int from = 0; from < grid_.cells; from += cells) {
    const int lost = Lost(from, cells);
    if (lost == 0 || lost == cells) continue;
    int kept = from;
    while (node_of_[kept] < 0) ++kept;
    const Range group = RangeOf(node_of_[kept], levels_[level].depth);
    for (int at = from; at < from + cells;) {
      int units = 0;
      while (at + units * part < from + cells && Lost(at + units * part, part) == part) ++units;
      if (units > 0 && !Pack(level + 1, group, at, units)) return false;
      at += std::max(units, 1) * part;
    }
  }
  return true;
}

bool RunPacker::Pack(size_t level, Range range, int from, int units) {
  if (UnitsIn(level, range) < units) return false;
  const int cells = levels_[level].cells;
  const std::vector<int> nodes = GroupsFor(level, range, from, units);
  for (int unit = 0; unit < units; ++unit) {
    const int first = from + unit * cells;
    if (level + 1 == levels_.size()) {
      node_of_[first] = nodes[unit];
      --left_[nodes[unit]];
      continue;
    }
    const Range group = RangeOf(nodes[unit], levels_[level].depth);
    if (!Pack(level + 1, group, first, cells / levels_[level + 1].cells)) return false;
  }
  return true;
}

Grid RunPacker::GridOfUnits(size_t level, int from, int units) const {
  const int whole = level == 0 ? grid_.cells : levels_[level - 1].cells;
  const int cells = levels_[level].cells;
  const auto inner = ExtentsOf(grid_, cells), outer = ExtentsOf(grid_, units * cells);
  if (units * cells != whole || from % whole != 0 || !inner || !outer) return LineOf(units);
  Grid grid = grid_;
  grid.cells = 1;
  for (int i = 0; i < kAxes; ++i) {
    Axis& axis = grid.axes[i];
    if ((*outer)[i] % (*inner)[i] != 0) return LineOf(units);
    if ((*outer)[i] < axis.degree) {  // a part of a ring is a line
      axis.closing = 0;
      if (axis.pattern == Axis::Pattern::kRing) axis.pattern = Axis::Pattern::kLine;
    }
    const int64_t pairs = cells / (*inner)[i];  // of cells, between neighbouring units
    axis.weight *= pairs;
    axis.closing *= pairs;
    axis.degree = (*outer)[i] / (*inner)[i];
    axis.stride = grid.cells;
    grid.cells *= axis.degree;
  }
  return grid;
}

std::vector<int> RunPacker::GroupsFor(size_t level, Range range, int from, int units) {
  std::vector<int> nodes;
  Cells room;  // units, each where its group begins
  room.first.push_back(0);
  int taken = 0;  // by preferred nodes
  for (int node = 0; node < static_cast<int>(left_.size()); ++node) {
    int here = 0;
    if (node >= range.first && node < range.end) {
      const Range group = RangeOf(node, levels_[level].depth);
      if (group.first == node) here = UnitsInGroup(level, group);
      const bool cell = level + 1 == levels_.size();
      if (cell && preferred_ != nullptr && (*preferred_)[node] != 0) {
        const int take = std::min(here, units - taken);
        nodes.insert(nodes.end(), take, node);
        taken += take;
        here = 0;
      }
    }
    room.first.push_back(room.first.back() + here);
  }
  if (taken == units) return nodes;
  if (taken > 0 || ++searches_ > kMostRunSearches) {
    for (int node = range.first; node < range.end && taken < units; ++node) {
      const int take = std::min(room.first[node + 1] - room.first[node], units - taken);
      nodes.insert(nodes.end(), take, node);
      taken += take;
    }
    return nodes;
  }
  return AssignTopDown(cluster_, room, GridOfUnits(level, from, units));
}

}  // namespace strata::scheduler
