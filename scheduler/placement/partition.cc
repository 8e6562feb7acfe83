#include "scheduler/placement/partition.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "scheduler/placement/tiling.h"

namespace strata::scheduler {
namespace {

struct Candidate {
  Axes tile;
  bool breaks_pipelines = false;  // the tile does not hold whole ones
  bool breaks_contexts = false;
  double inside = 0;  // bytes inside a tile, per cell
};

// What a division is worth.
struct Worth {
  int whole_pipelines = 0;  // cells of them
  int whole_contexts = 0;
  int64_t bytes_inside = 0;
  int64_t fewer_pieces = 0;  // negative: the fewer, the better they can be divided further

  Worth Whole() const { return {whole_pipelines, whole_contexts, 0, 0}; }
  auto operator<=>(const Worth&) const = default;
};

class Divider {
 public:
  Divider(const Grid& grid, const Box& box, const Children& children, const PartitionRules& rules)
      : grid_(grid), box_(box), children_(children), rules_(rules) {
    for (int i = 0; i < kAxes; ++i) whole_[i] = box.extent(i) == grid.axes[i].degree;
    std::iota(by_weight_.begin(), by_weight_.end(), 0);
    std::stable_sort(by_weight_.begin(), by_weight_.end(),
                     [&](int a, int b) { return grid_.axes[a].weight > grid_.axes[b].weight; });
    inner_ = by_weight_;
    if (rules.keep_whole) inner_ = {kPipelineAxis, kContextAxis, 1, 3, 4};
  }

  std::vector<Part> Best() {
    std::optional<Worth> best;
    std::optional<Tiling> best_tiling;
    Shares shares;
    Dealer uneven(children_), even(children_);
    int left = rules_.budget;
    for (const Candidate& candidate : Candidates()) {
      if (best && left <= 0) break;
      const std::vector<Axes> orders = OuterOrders(candidate.tile);
      Tiling tiling(grid_, box_, candidate.tile, inner_, orders[0]);
      uneven.Deal(tiling, false);
      const bool differ = uneven.chose() && left > 1;
      if (differ) even.Deal(tiling, true);
      for (const Axes& outer : orders) {
        tiling.SetOuter(outer);
        for (const Dealer* dealer : {&uneven, &even}) {
          if (left-- <= 0 && best) return ToParts(shares, *best_tiling);
          if (dealer == &even && !differ) continue;
          Worth worth = WholeCells(tiling, *dealer);
          if (best && worth < best->Whole()) continue;
          worth.bytes_inside = BytesInside(tiling, *dealer);
          worth.fewer_pieces = -static_cast<int64_t>(dealer->shares().runs.size());
          if (best && worth <= *best) continue;
          best = worth;
          best_tiling.emplace(tiling);
          shares = dealer->shares();
        }
      }
    }
    return ToParts(shares, *best_tiling);
  }

 private:
  bool HasWhole(int axis) const { return whole_[axis] && grid_.axes[axis].degree > 1; }

  // All tiles that some child holds, the most promising first.
  std::vector<Candidate> Candidates() const {
    int largest = 1;
    for (const int pool : children_.pools) largest = std::max(largest, pool);
    std::vector<Candidate> found;
    Axes tile = {1, 1, 1, 1, 1};
    if (rules_.budget == 1) return {Judge(tile)};  // nothing to choose
    std::array<std::vector<int>, kAxes> divisors;  // of the extents, as far as children hold them
    for (int i = 0; i < kAxes; ++i) divisors[i] = Divisors(box_.extent(i), largest);
    Extend(0, 1, largest, divisors, tile, found);
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      if (a.breaks_pipelines != b.breaks_pipelines) return b.breaks_pipelines;
      if (a.breaks_contexts != b.breaks_contexts) return b.breaks_contexts;
      return a.inside > b.inside;
    });
    return found;
  }

  // Ascending.
  static std::vector<int> Divisors(int number, int most) {
    std::vector<int> divisors;
    for (int i = 1; i <= std::min(number, most); ++i) {
      if (number % i == 0) divisors.push_back(i);
    }
    return divisors;
  }

  void Extend(int axis, int cells, int largest, const std::array<std::vector<int>, kAxes>& divisors,
              Axes& tile, std::vector<Candidate>& found) const {
    constexpr size_t kMostTiles = 2000;
    if (found.size() >= kMostTiles) return;
    if (axis == kAxes) {
      found.push_back(Judge(tile));
      return;
    }
    for (const int part : divisors[axis]) {
      if (part > largest / cells) break;
      tile[axis] = part;
      Extend(axis + 1, cells * part, largest, divisors, tile, found);
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

  Worth WholeCells(const Tiling& tiling, const Dealer& dealer) const {
    Worth worth;
    for (size_t i = 0; rules_.keep_whole && i < dealer.dealt().size(); ++i) {
      const int unit = tiling.units()[i];
      const int dealt = dealer.dealt()[i];
      if (HasWhole(kPipelineAxis) && tiling.UnitHolds(unit, kPipelineAxis)) {
        worth.whole_pipelines += dealt;
      }
      if (HasWhole(kContextAxis) && tiling.UnitHolds(unit, kContextAxis)) {
        worth.whole_contexts += dealt;
      }
    }
    return worth;
  }

  int64_t BytesInside(const Tiling& tiling, const Dealer& dealer) const {
    int64_t bytes = 0;
    for (int child = 0; child < children_.count(); ++child) {
      bytes += tiling.BytesInside(dealer.shares().Of(child));
    }
    return bytes;
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

  std::vector<Part> ToParts(const Shares& shares, const Tiling& tiling) const {
    std::vector<Part> parts;
    std::vector<Box> boxes;
    for (int child = 0; child < children_.count(); ++child) {
      boxes.clear();
      for (const Run& run : shares.Of(child)) tiling.AppendBoxes(run, boxes);
      if (boxes.size() > 1) {
        JoinNeighbours(boxes);
        std::stable_sort(boxes.begin(), boxes.end(),
                         [](const Box& a, const Box& b) { return a.cells() > b.cells(); });
      }
      for (const Box& box : boxes) parts.push_back({child, box});
    }
    return parts;
  }

  const Grid& grid_;
  const Box& box_;
  const Children& children_;
  const PartitionRules& rules_;
  std::array<bool, kAxes> whole_ = {};  // the box has the axis' whole extent
  Axes by_weight_ = {};                 // heaviest first
  Axes inner_ = {};
};

}  // namespace

std::vector<Part> DividedAmong(const Grid& grid, const Box& box, const Children& children,
                               const PartitionRules& rules) {
  return Divider(grid, box, children, rules).Best();
}

}  // namespace strata::scheduler
