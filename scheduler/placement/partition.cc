#include "scheduler/placement/partition.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "common/check.h"
#include "scheduler/placement/tiling.h"

namespace strata::scheduler {
namespace {

using Axes = std::array<int, kAxes>;

struct Candidate {
  Axes tile;
  bool breaks_pipelines = false;  // the tile does not hold whole ones
  bool breaks_contexts = false;
  double inside = 0;  // bytes inside a tile, per cell
};

// The runs that each child gets, and what that is worth.
struct Division {
  std::vector<std::vector<Run>> runs;  // by child
  int64_t whole_pipelines = 0;         // cells of them
  int64_t whole_contexts = 0;
  int64_t inside = 0;
  size_t pieces = 0;  // the fewer, the better they can be divided further

  bool operator<(const Division& other) const {  // worse than
    if (whole_pipelines != other.whole_pipelines) return whole_pipelines < other.whole_pipelines;
    if (whole_contexts != other.whole_contexts) return whole_contexts < other.whole_contexts;
    if (inside != other.inside) return inside < other.inside;
    return pieces > other.pieces;
  }
};

// Hands out runs of a numbering: first whole tiles, then ever smaller units.
class Dealer {
 public:
  Dealer(const Tiling& tiling, const std::vector<Child>& children, bool even)
      : tiling_(tiling), children_(children), even_(even) {
    division_.runs.resize(children.size());
  }

  Division Deal(bool keep_whole, bool has_pipelines, bool has_contexts) {
    for (const int64_t unit : tiling_.units()) {
      if (at_ == tiling_.cells()) break;
      const int64_t before = at_;
      DealUnits(unit);
      if (!keep_whole) continue;
      if (has_pipelines && tiling_.UnitHolds(unit, kPipelineAxis)) {
        division_.whole_pipelines += at_ - before;
      }
      if (has_contexts && tiling_.UnitHolds(unit, kContextAxis)) {
        division_.whole_contexts += at_ - before;
      }
    }
    STRATA_CHECK(at_ == tiling_.cells());
    for (const std::vector<Run>& runs : division_.runs) {
      if (!runs.empty()) division_.inside += tiling_.BytesInside(runs);
      division_.pieces += runs.size();
    }
    return std::move(division_);
  }

 private:
  int64_t Capacity(size_t child, int64_t unit) const {
    int64_t units = 0;
    for (const int pool : children_[child].pools) units += pool / unit;
    return units;
  }

  void Take(size_t child, int64_t unit, int64_t units) {
    if (units == 0) return;
    std::vector<Run>& runs = division_.runs[child];
    const Run run = {at_, at_ + units * unit};
    if (!runs.empty() && runs.back().end == run.begin) {
      runs.back().end = run.end;
    } else {
      runs.push_back(run);
    }
    at_ = run.end;
    for (int& pool : children_[child].pools) {
      const int64_t taken = std::min(units, pool / unit);
      pool -= static_cast<int>(taken * unit);
      units -= taken;
    }
  }

  void DealUnits(int64_t unit) {
    const int64_t needed = (tiling_.cells() - at_) / unit;
    std::vector<int64_t> share(children_.size());
    int64_t total = 0;
    for (size_t child = 0; child < children_.size(); ++child) {
      total += share[child] = Capacity(child, unit);
    }
    if (total > needed) Choose(needed, share);
    for (size_t child = 0; child < children_.size(); ++child) Take(child, unit, share[child]);
  }

  // The fewest children: the largest first, the last one the tightest.
  void Choose(int64_t needed, std::vector<int64_t>& share) const {
    std::vector<int> order(share.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return share[a] > share[b]; });
    std::vector<int64_t> chosen(share.size(), 0);
    size_t used = 0;
    int64_t left = needed;
    for (; left > 0 && share[order[used]] < left; ++used) {
      left -= chosen[order[used]] = share[order[used]];
    }
    size_t last = used;
    while (last + 1 < order.size() && share[order[last + 1]] >= left) ++last;
    while (last > used && share[order[last - 1]] == share[order[last]]) --last;
    if (left > 0) chosen[order[last]] = left;
    if (even_) Even(needed, share, chosen);
    share = std::move(chosen);
  }

  // The same children, as equal as their capacities allow.
  static void Even(int64_t needed, const std::vector<int64_t>& share,
                   std::vector<int64_t>& chosen) {
    std::vector<int> order;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] > 0) order.push_back(static_cast<int>(i));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return share[a] < share[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      const auto rest = static_cast<int64_t>(order.size() - i);
      chosen[order[i]] = std::min(share[order[i]], (needed + rest - 1) / rest);
      needed -= chosen[order[i]];
    }
  }

  const Tiling& tiling_;
  std::vector<Child> children_;
  const bool even_;
  int64_t at_ = 0;
  Division division_;
};

class Divider {
 public:
  Divider(const Grid& grid, const Box& box, const std::vector<Child>& children,
          const PartitionRules& rules)
      : grid_(grid), box_(box), children_(children), rules_(rules) {
    for (int i = 0; i < kAxes; ++i) whole_[i] = box.extent(i) == grid.axes[i].degree;
    std::iota(by_weight_.begin(), by_weight_.end(), 0);
    std::stable_sort(by_weight_.begin(), by_weight_.end(),
                     [&](int a, int b) { return grid_.axes[a].weight > grid_.axes[b].weight; });
    inner_ = by_weight_;
    if (rules.keep_whole) inner_ = {kPipelineAxis, kContextAxis, 1, 3, 4};
  }

  std::vector<Part> Best() {
    std::optional<Division> best;
    std::optional<Tiling> tiling;
    int left = rules_.budget;
    for (const Candidate& candidate : Candidates()) {
      if (best && left <= 0) break;
      for (const Axes& outer : OuterOrders(candidate.tile)) {
        for (const bool even : {false, true}) {
          if (best && left <= 0) break;
          --left;
          const Tiling tried(grid_, box_, candidate.tile, inner_, outer);
          Division division =
              Dealer(tried, children_, even)
                  .Deal(rules_.keep_whole, HasWhole(kPipelineAxis), HasWhole(kContextAxis));
          if (best && !(*best < division)) continue;
          best = std::move(division);
          tiling.emplace(tried);
        }
      }
    }
    return ToParts(*best, *tiling);
  }

 private:
  bool HasWhole(int axis) const { return whole_[axis] && grid_.axes[axis].degree > 1; }

  // All tiles that some child holds, the most promising first.
  std::vector<Candidate> Candidates() const {
    int64_t largest = 1;
    for (const Child& child : children_) {
      for (const int pool : child.pools) largest = std::max<int64_t>(largest, pool);
    }
    std::vector<Candidate> found;
    Axes tile = {1, 1, 1, 1, 1};
    if (rules_.budget == 1) return {Judge(tile)};  // nothing to choose
    Extend(0, 1, largest, tile, found);
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      if (a.breaks_pipelines != b.breaks_pipelines) return b.breaks_pipelines;
      if (a.breaks_contexts != b.breaks_contexts) return b.breaks_contexts;
      return a.inside > b.inside;
    });
    return found;
  }

  void Extend(int axis, int64_t cells, int64_t largest, Axes& tile,
              std::vector<Candidate>& found) const {
    constexpr size_t kMostTiles = 2000;
    if (found.size() >= kMostTiles) return;
    if (axis == kAxes) {
      found.push_back(Judge(tile));
      return;
    }
    const int extent = box_.extent(axis);
    for (int part = 1; part <= extent && cells * part <= largest; ++part) {
      if (extent % part != 0) continue;
      tile[axis] = part;
      Extend(axis + 1, cells * part, largest, tile, found);
    }
    tile[axis] = 1;
  }

  Candidate Judge(const Axes& tile) const {
    Candidate candidate = {tile};
    if (rules_.keep_whole) {
      candidate.breaks_pipelines =
          HasWhole(kPipelineAxis) && tile[kPipelineAxis] < grid_.axes[kPipelineAxis].degree;
      candidate.breaks_contexts =
          HasWhole(kContextAxis) && tile[kContextAxis] < grid_.axes[kContextAxis].degree;
    }
    for (int i = 0; i < kAxes; ++i) {
      const Axis& axis = grid_.axes[i];
      double bytes = static_cast<double>(axis.weight) * (tile[i] - 1);
      if (tile[i] > 1 && tile[i] == axis.degree) bytes += static_cast<double>(axis.closing);
      candidate.inside += bytes / tile[i];
    }
    return candidate;
  }

  // Axes along which there is more than one tile, in every order when they are few.
  std::vector<Axes> OuterOrders(const Axes& tile) const {
    std::vector<int> active, idle;
    for (const int axis : by_weight_) {
      (box_.extent(axis) > tile[axis] ? active : idle).push_back(axis);
    }
    std::vector<Axes> orders;
    std::vector<int> order(active.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      Axes axes = {};
      size_t at = 0;
      for (const int i : order) axes[at++] = active[i];
      for (const int axis : idle) axes[at++] = axis;
      orders.push_back(axes);
    } while (std::next_permutation(order.begin(), order.end()));
    return orders;
  }

  // Boxes that make up a larger one become it: what stays together is divided together further
  // down.
  static void JoinNeighbours(std::vector<Box>& boxes) {
    for (size_t i = 0; i < boxes.size();) {
      const auto joined = std::find_if(boxes.begin() + static_cast<ptrdiff_t>(i) + 1, boxes.end(),
                                       [&](const Box& other) { return Join(boxes[i], other); });
      if (joined == boxes.end()) {
        ++i;
      } else {
        boxes.erase(joined);
        i = 0;
      }
    }
  }

  // Extends `box` by `other` where both differ along one axis only and touch there.
  static bool Join(Box& box, const Box& other) {
    int axis = -1;
    for (int i = 0; i < kAxes; ++i) {
      if (box.from[i] == other.from[i] && box.to[i] == other.to[i]) continue;
      if (axis >= 0 || (box.to[i] != other.from[i] && other.to[i] != box.from[i])) return false;
      axis = i;
    }
    if (axis < 0) return false;
    box.from[axis] = std::min(box.from[axis], other.from[axis]);
    box.to[axis] = std::max(box.to[axis], other.to[axis]);
    return true;
  }

  static std::vector<Part> ToParts(const Division& division, const Tiling& tiling) {
    std::vector<Part> parts;
    for (size_t child = 0; child < division.runs.size(); ++child) {
      if (division.runs[child].empty()) continue;
      Part part = {static_cast<int>(child), {}};
      for (const Run& run : division.runs[child]) tiling.AppendBoxes(run, part.boxes);
      JoinNeighbours(part.boxes);
      std::stable_sort(part.boxes.begin(), part.boxes.end(),
                       [](const Box& a, const Box& b) { return a.cells() > b.cells(); });
      parts.push_back(std::move(part));
    }
    return parts;
  }

  const Grid& grid_;
  const Box& box_;
  const std::vector<Child>& children_;
  const PartitionRules& rules_;
  std::array<bool, kAxes> whole_ = {};  // the box has the axis' whole extent
  Axes by_weight_ = {};                 // heaviest first
  Axes inner_ = {};
};

}  // namespace

int Box::cells() const {
  int cells = 1;
  for (int i = 0; i < kAxes; ++i) cells *= extent(i);
  return cells;
}

std::vector<Part> DividedAmong(const Grid& grid, const Box& box, const std::vector<Child>& children,
                               const PartitionRules& rules) {
  return Divider(grid, box, children, rules).Best();
}

}  // namespace strata::scheduler
