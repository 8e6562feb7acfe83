// New devices for lost ranks, near those that stay.
//
// Lost tensor groups stay in the group of the pipeline level ("zone" below) that the rest of their
// pipeline is in as long as there is room. Where there is none, the smallest whole group that can
// go elsewhere without anything being torn apart does so together: the tensor group, else its
// pipeline, its context group, all pipelines of the context group, all that the job has in the
// zone; of several such groups as few as make room for the others, those that lost most first.
// Where every choice tears something, the one that tears least.
#include <algorithm>
#include <initializer_list>
#include <map>
#include <tuple>
#include <utility>

#include "scheduler/placement/assignment.h"
#include "scheduler/placement/cells.h"
#include "scheduler/placement/grid.h"
#include "scheduler/placement/held_ranks.h"
#include "scheduler/placement/lost_groups.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/rank_order.h"
#include "scheduler/placement/runs.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;
using topology::Group;

// What a choice of a node for some cells costs, in the order of placement.h; smaller is better.
struct Price {
  int64_t split_pipelines = 0;
  int64_t split_contexts = 0;
  bool not_preferred = false;
  std::vector<int64_t> bytes;  // to cells that have a node, by the depth at which they meet

  friend bool operator<(const Price& a, const Price& b) {
    return std::tie(a.split_pipelines, a.split_contexts, a.not_preferred, a.bytes) <
           std::tie(b.split_pipelines, b.split_contexts, b.not_preferred, b.bytes);
  }
};

// What moves as a whole: all that differs in some axes alone (a tensor group in none), or all that
// the job has in a zone.
struct Level {
  std::vector<int> axes = {};
  bool zone = false;
};

// For one choice of rails and one level.
class Replacer {
 public:
  // `held`: its tensor groups are whole or lost.
  Replacer(const Cluster& cluster, const Shape& shape, const Rails& rails,
           const std::vector<char>& preferred, HeldRanks held)
      : cluster_(cluster),
        grid_(GridOf(shape)),
        rails_(rails),
        preferred_(preferred),
        held_(std::move(held)),
        node_of_(grid_.cells) {
    for (int cell = 0; cell < grid_.cells; ++cell) node_of_[cell] = held_.NodeOf(cell);
    anchors_ = Groups().Anchors();
    FormCellsAnew();
  }

  // False: there is not enough room, or the level has nothing that could move.
  bool Run(const Level& level) {
    std::vector<Block> moving;
    if (level.zone) moving = BlocksToMove(Groups().ZonesThatLost(anchors_));
    if (!level.axes.empty()) moving = BlocksToMove(Groups().ThatLost(level.axes));
    if (moving.empty() && (level.zone || !level.axes.empty())) return false;
    std::vector<char> moves(grid_.cells, 0);
    for (const Block& block : moving) {
      for (const int cell : block.cells) {
        moves[cell] = 1;
        held_.Lose(cell);
        node_of_[cell] = -1;
      }
    }
    FormCellsAnew();
    PlaceLostInTheirZones(moves);
    for (const Block& block : moving) PlaceTogether(block, level);
    PlaceAnywhere();
    return std::find(node_of_.begin(), node_of_.end(), -1) == node_of_.end();
  }

  // If there is room for every lost cell where it belongs; after Run as it is.
  Splits LeastSplits() const { return Groups().LeastSplits(anchors_); }
  const std::vector<Device>& ranks() const { return held_.ranks(); }  // canonically numbered

 private:
  LostGroups Groups() const { return {cluster_, grid_, node_of_}; }
  int ZoneOf(int node) const { return Groups().ZoneOf(node); }
  const Group& GroupAt(int zone) const { return cluster_.groups()[zone]; }

  void FormCellsAnew() {
    cells_ = FormCells(cluster_, held_.free(), rails_);
    used_.assign(cluster_.nodes().size(), 0);
  }
  int Left(int node) const { return cells_.first[node + 1] - cells_.first[node] - used_[node]; }
  int LeftIn(int zone) const {
    int left = 0;
    for (int node = GroupAt(zone).first_node; node < GroupAt(zone).end_node; ++node) {
      left += Left(node);
    }
    return left;
  }

  // Blocks of which nothing is left, and those that have to leave their zone.
  std::vector<Block> BlocksToMove(std::vector<Block> blocks) const {
    std::vector<Block> moving;
    std::map<int, int> room;  // by zone, beside what lost cells of blocks that stay need
    for (const Group& group : cluster_.groups()) {
      if (group.depth != cluster_.pipeline_depth()) continue;
      const auto zone = static_cast<int>(&group - cluster_.groups().data());
      room[zone] = LeftIn(zone);
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const Block& a, const Block& b) { return a.lost > b.lost; });
    for (const Block& block : blocks) {
      for (const int cell : block.cells) {
        if (block.kept() > 0 && anchors_[cell] >= 0) --room[anchors_[cell]];
      }
    }
    for (const Block& block : blocks) {
      const bool stays = block.kept() > 0 && (block.zone < 0 || room[block.zone] >= 0);
      if (stays || (!TakeRoom(block, room) && block.kept() > 0)) continue;
      if (block.zone >= 0) room[block.zone] += block.size();
      moving.push_back(block);
    }
    return moving;
  }

  // In any zone but its own.
  static bool TakeRoom(const Block& block, std::map<int, int>& room) {
    for (auto& [zone, left] : room) {
      if (zone == block.zone || left < block.size()) continue;
      left -= block.size();
      return true;
    }
    return false;
  }

  void PlaceLostInTheirZones(const std::vector<char>& moves) {
    std::map<int, std::vector<int>> lost;  // by zone
    for (int cell = 0; cell < grid_.cells; ++cell) {
      if (node_of_[cell] >= 0 || moves[cell]) continue;
      if (anchors_[cell] >= 0) lost[anchors_[cell]].push_back(cell);
    }
    for (const auto& [zone, cells] : lost) PlaceInBatches(cells, GroupAt(zone));
  }

  void PlaceAnywhere() {
    std::vector<int> lost;
    for (int cell = 0; cell < grid_.cells; ++cell) {
      if (node_of_[cell] < 0) lost.push_back(cell);
    }
    PlaceInBatches(lost, GroupAt(0));
  }

  // As many consecutive lost cells together as a node can hold: they were together before. Until
  // the range is full.
  void PlaceInBatches(const std::vector<int>& lost, const Group& range) {
    for (size_t at = 0; at < lost.size();) {
      int largest = 0;
      for (int node = range.first_node; node < range.end_node; ++node) {
        largest = std::max(largest, Left(node));
      }
      if (largest == 0) return;
      const size_t size = std::min(lost.size() - at, static_cast<size_t>(largest));
      const std::vector<int> batch(lost.begin() + static_cast<ptrdiff_t>(at),
                                   lost.begin() + static_cast<ptrdiff_t>(at + size));
      const int node = BestNode(batch, range);
      for (const int cell : batch) Take(cell, node);
      at += size;
    }
  }

  int BestNode(const std::vector<int>& batch, const Group& range) const {
    std::vector<int> pipeline_zones, context_zones;
    for (const int cell : batch) {
      pipeline_zones.push_back(ZoneOfGroup(cell, kPipelineAxis));
      context_zones.push_back(ZoneOfGroup(cell, kContextAxis));
    }
    int best = -1;
    Price price, least;
    for (int node = range.first_node; node < range.end_node; ++node) {
      if (Left(node) < static_cast<int>(batch.size())) continue;
      price.split_pipelines = Others(pipeline_zones, ZoneOf(node));
      price.split_contexts = Others(context_zones, ZoneOf(node));
      price.not_preferred = !preferred_[node];
      price.bytes.assign(static_cast<size_t>(cluster_.node_depth()) + 1, 0);
      for (const int cell : batch) AddBytes(cell, node, price.bytes);
      if (best >= 0 && !(price < least)) continue;
      std::swap(least, price);
      best = node;
    }
    return best;
  }

  // Where the others of a cell's group along an axis are; -1: nowhere, or they are split anyway.
  int ZoneOfGroup(int cell, int axis) const {
    return grid_.axes[axis].degree == 1 ? -1 : Groups().Around(cell, {axis}).zone;
  }

  static int64_t Others(const std::vector<int>& zones, int zone) {
    return std::count_if(zones.begin(), zones.end(),
                         [&](int other) { return other >= 0 && other != zone; });
  }

  void AddBytes(int cell, int node, std::vector<int64_t>& by_depth) const {
    grid_.ForEachNeighbour(cell, [&](int other, int64_t bytes) {
      if (node_of_[other] < 0) return;
      const int depth = cluster_.MeetingDepth(node, node_of_[other]);
      by_depth[cluster_.AccountedDepth(depth)] += bytes;
    });
  }

  // In the zone where it costs least, and there in the smallest group that holds it.
  void PlaceTogether(const Block& block, const Level& level) {
    const std::vector<int> zones = BestZones(block);
    if (zones.empty()) return;
    if (level.zone) return PlaceInBatches(block.cells, GroupAt(zones[0]));
    std::vector<int> best;
    std::vector<int64_t> least, bytes;
    for (const int zone : zones) {
      const std::vector<int> nodes =
          AssignTopDown(cluster_, CellsIn(GroupAt(zone)), GridOfBlock(level.axes));
      bytes.assign(static_cast<size_t>(cluster_.node_depth()) + 1, 0);
      for (size_t i = 0; i < nodes.size(); ++i) {
        AddBytes(block.cells[i], nodes[i], bytes);
        node_of_[block.cells[i]] = nodes[i];
      }
      for (const int cell : block.cells) node_of_[cell] = -1;
      if (!best.empty() && least <= bytes) continue;
      best = nodes;
      std::swap(least, bytes);
    }
    for (size_t i = 0; i < best.size(); ++i) Take(block.cells[i], best[i]);
  }

  // Those that have room for a block and cost least, as far as the zone decides.
  std::vector<int> BestZones(const Block& block) const {
    std::vector<int> context_zones;
    for (const int cell : block.cells) context_zones.push_back(ZoneOfGroup(cell, kContextAxis));
    std::vector<int> zones;
    Price price, least;
    for (const Group& group : cluster_.groups()) {
      const auto zone = static_cast<int>(&group - cluster_.groups().data());
      if (group.depth != cluster_.pipeline_depth() || LeftIn(zone) < block.size()) continue;
      price.split_contexts = Others(context_zones, zone);
      price.bytes.assign(static_cast<size_t>(cluster_.node_depth()) + 1, 0);
      for (const int cell : block.cells) AddBytes(cell, group.first_node, price.bytes);
      price.bytes.resize(cluster_.pipeline_depth());
      if (!zones.empty() && least < price) continue;
      if (!zones.empty() && price < least) zones.clear();
      zones.push_back(zone);
      least = price;
    }
    return zones;
  }

  // The grid of one block; its cells in the order of GroupOf.
  Grid GridOfBlock(const std::vector<int>& axes) const {
    Grid grid = grid_;
    for (Axis& axis : grid.axes) axis = Axis{};
    grid.cells = 1;
    for (const int axis : axes) {
      grid.axes[axis] = grid_.axes[axis];
      grid.axes[axis].stride = grid.cells;
      grid.cells *= grid.axes[axis].degree;
    }
    return grid;
  }

  // What is left of the cells of a group's nodes.
  Cells CellsIn(const Group& group) const {
    Cells left;
    left.rails = cells_.rails;
    left.first.push_back(0);
    for (int node = 0; node < static_cast<int>(used_.size()); ++node) {
      const bool inside = node >= group.first_node && node < group.end_node;
      left.first.push_back(left.first.back() + (inside ? Left(node) : 0));
    }
    return left;
  }

  void Take(int cell, int node) {
    const size_t from = static_cast<size_t>(cells_.first[node] + used_[node]++) * rails_.tensor;
    held_.Put(cell, &cells_.devices[from]);
    node_of_[cell] = node;
  }

  const Cluster& cluster_;
  const Grid grid_;
  const Rails rails_;
  const std::vector<char>& preferred_;
  HeldRanks held_;
  std::vector<int> node_of_;  // by cell; of cells on several nodes the first one's
  std::vector<int> anchors_;  // as the ranks were lost
  Cells cells_;
  std::vector<int> used_;  // cells of a node
};

// Smaller groups first.
std::vector<Level> LevelsOf(const Grid& grid) {
  std::vector<Level> levels = {{}};
  const bool pipelines = grid.axes[kPipelineAxis].degree > 1;
  const bool contexts = grid.axes[kContextAxis].degree > 1;
  if (pipelines) levels.push_back({{kPipelineAxis}});
  if (contexts) levels.push_back({{kContextAxis}});
  if (pipelines && contexts) levels.push_back({{kPipelineAxis, kContextAxis}});
  if (pipelines || contexts) levels.push_back({{}, true});
  return levels;
}

// Pipelines that no placement of the job keeps whole, not even one that moves all of it.
int64_t SplitInAnyCase(const Cluster& cluster, const Grid& grid, const HeldRanks& held,
                       const Rails& rails) {
  HeldRanks none = held;
  for (int cell = 0; cell < grid.cells; ++cell) none.Lose(cell);
  const Cells cells = FormCells(cluster, none.free(), rails);
  const int degree = grid.axes[kPipelineAxis].degree;
  int64_t whole = 0;
  for (const Group& group : cluster.groups()) {
    if (group.depth != cluster.pipeline_depth()) continue;
    whole += cells.CountIn(group.first_node, group.end_node) / degree;
  }
  return std::max<int64_t>(0, grid.cells / degree - whole);
}

// Canonically numbered: at the first level that splits no more than must be; else at the one that
// splits least. Empty: it cannot be done on these rails.
std::vector<Device> ReplaceOnRails(const Cluster& cluster, const Shape& shape, const Rails& rails,
                                   const std::vector<char>& preferred, const HeldRanks& held) {
  const Replacer replacer(cluster, shape, rails, preferred, held);
  const Splits least = replacer.LeastSplits();
  std::optional<Replacer> best;
  Splits splits;
  for (const Level& level : LevelsOf(GridOf(shape))) {
    Replacer attempt = replacer;
    if (!attempt.Run(level)) continue;
    const Splits now = attempt.LeastSplits();
    if (best && splits <= now) continue;
    best.emplace(std::move(attempt));
    splits = now;
    if (splits <= least) return best->ranks();
  }
  if (!best) return {};
  if (splits.first > least.first &&
      splits.first > SplitInAnyCase(cluster, GridOf(shape), held, rails)) {
    return {};
  }
  return best->ranks();
}

}  // namespace

namespace {

// As many of the constraints as the ranks obey, in the order in which they are given up.
int64_t Obeyed(const Cluster& cluster, const Shape& shape, const std::vector<Device>& ranks) {
  return std::count_if(shape.topology.begin(), shape.topology.end(),
                       [&](const auto& constraint) { return Obeys(cluster, constraint, ranks); });
}

// The lost cells alone, or also the whole runs of the level that lost any, go where the runs around
// them are. Empty: there is no room.
std::vector<Device> MoveRuns(const Cluster& cluster, const Shape& shape, const Rails& rails,
                             const std::vector<char>& preferred, HeldRanks held,
                             const std::vector<RunLevel>& levels, size_t level) {
  const Grid grid = GridOf(shape);
  std::vector<int> node_of(grid.cells);
  for (int cell = 0; cell < grid.cells; ++cell) node_of[cell] = held.NodeOf(cell);
  const int run = levels[level].cells;
  for (int from = 0; from < grid.cells; from += run) {
    if (std::count(node_of.begin() + from, node_of.begin() + from + run, -1) == 0) continue;
    for (int cell = from; cell < from + run; ++cell) {
      held.Lose(cell);
      node_of[cell] = -1;
    }
  }
  const Cells cells = FormCells(cluster, held.free(), WithPieces(cluster, shape, rails));
  const std::vector<int> before = node_of;
  RunPacker packer(cluster, levels, grid, cells, std::move(node_of), &preferred);
  if (!packer.Run()) return {};
  std::vector<int> next(cells.first.begin(), cells.first.end() - 1);
  for (int cell = 0; cell < grid.cells; ++cell) {
    if (before[cell] >= 0) continue;
    const int taken = next[packer.node_of()[cell]]++;
    held.Put(cell, &cells.devices[static_cast<size_t>(taken) * rails.tensor]);
  }
  return held.ranks();
}

// As ReplaceOnRails, with the shape's constraints: first what it finds without them, if that obeys
// them; else the smallest runs that can move. Canonically numbered.
std::vector<Device> ReplaceInRuns(const Cluster& cluster, const Shape& shape, const Rails& rails,
                                  const std::vector<char>& preferred, const HeldRanks& held) {
  std::vector<Device> best = ReplaceOnRails(cluster, shape, rails, preferred, held);
  if (!best.empty() && !ObeysAll(cluster, shape, best)) best.clear();
  if (!best.empty() && Obeyed(cluster, shape, best) == std::ssize(shape.topology)) return best;
  Shape strict = shape;
  for (TopologyConstraint& constraint : strict.topology) constraint.preferred = false;
  for (const Shape* tried : std::initializer_list<const Shape*>{&strict, &shape}) {
    const auto levels = RunLevelsOf(cluster, *tried);
    if (!levels.has_value()) continue;
    for (size_t level = levels->size(); level-- > 0;) {
      std::vector<Device> moved = MoveRuns(cluster, shape, rails, preferred, held, *levels, level);
      if (!moved.empty() && ObeysAll(cluster, *tried, moved)) return moved;
    }
    if (!best.empty()) return best;
  }
  return best;
}

}  // namespace

std::optional<Placement> Replace(const Cluster& cluster, const Occupancy& occupancy,
                                 const Shape& shape, const Placement& old,
                                 const std::vector<int>& prefer) {
  std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, old.kind);
  for (const Device& device : old.ranks) {
    if (device.node >= 0) free[device.node] &= ~(uint64_t{1} << device.device);
  }
  std::vector<char> preferred(cluster.nodes().size(), 0);
  for (const int node : prefer) preferred[node] = 1;
  const std::vector<Device> ranks =
      Renumbered(shape.degrees, old.ranks, old.order, CanonicalOrder());
  for (const Rails& rails : RailsToTry(cluster, old.kind, shape.degrees[0])) {
    HeldRanks held(cluster, rails, ranks, free);
    if (!held.AreOnRails()) continue;
    held.MendCells(preferred);
    std::vector<Device> found = shape.topology.empty()
                                    ? ReplaceOnRails(cluster, shape, rails, preferred, held)
                                    : ReplaceInRuns(cluster, shape, rails, preferred, held);
    if (found.empty()) continue;
    Placement placement = old;
    placement.ranks = Renumbered(shape.degrees, std::move(found), CanonicalOrder(), old.order);
    placement.cost = CostOf(cluster, shape, old.order, placement.ranks);
    std::erase_if(placement.spares, [&](int spare) {
      return std::any_of(placement.ranks.begin(), placement.ranks.end(),
                         [&](const Device& device) { return device.node == spare; });
    });
    return placement;
  }
  return std::nullopt;
}

}  // namespace strata::scheduler
