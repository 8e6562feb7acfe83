#include "scheduler/placement/exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "scheduler/placement/likeness.h"
#include "scheduler/placement/runs.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// What is placed as one: a whole cell on a node or, where cells may span nodes, one rank.
struct Item {
  int cell = 0;
  int rail = 0;         // of a rank; 0 of a cell
  int cell_first = -1;  // an earlier item of the same cell: in the same domain
  std::vector<std::pair<int, int64_t>> edges;  // to earlier items, with bytes
  std::vector<int> pipeline, context;          // the group's cells' first items that are earlier
  std::vector<std::pair<int, int>> together;   // an earlier item of each run, and its group's depth
  bool first_of_cell = true;
};

// Costs of what is placed so far: split pipelines, split context groups, bytes by accounted depth.
// They are compared from the left.
constexpr int kSplitPipelines = 0;
constexpr int kSplitContexts = 1;
constexpr int kFirstBytes = 2;

class Search {
 public:
  Search(const Cluster& cluster, const std::vector<uint64_t>& free, const Rails& rails,
         const Shape& shape, const topology::Group& range, int64_t budget)
      : cluster_(cluster),
        free_(free),
        rails_(rails),
        shape_(shape),
        grid_(GridOf(shape)),
        range_(cluster, range),
        budget_(budget),
        per_cell_(rails.spans ? rails.tensor : 1),
        rails_count_(rails.spans ? rails.chunk : 1),
        left_(LeftByNode()),
        like_(range_, left_, rails_count_),
        in_node_(range_.nodes(), 0),
        in_group_(range_.groups(), 0),
        left_in_node_(range_.nodes(), 0),
        left_in_group_(range_.groups(), 0),
        tried_(like_.Keys(), -1),
        width_(kFirstBytes + range_.depths() + 1),
        innermost_(kFirstBytes + cluster.AccountedDepth(cluster.node_depth())) {
    MakeItems();
    FindRates();
    groups_with_.assign((range_.depths() + 1) * (most_room_ + 1), 0);
    for (int node = 0; node < range_.nodes(); ++node) {
      for (int rail = 0; rail < rails_count_; ++rail) {
        AddLeft(node, left_[node * rails_count_ + rail]);
      }
    }
  }

  std::optional<std::vector<Device>> Run(const std::vector<Device>& start) {
    node_of_.assign(items_.size(), -1);
    zone_of_.assign(items_.size(), -1);
    constexpr int64_t kAnyCost = int64_t{1} << 57;  // sums of them stay whole
    best_ = start.empty() ? std::vector<int64_t>(width_, kAnyCost) : CostsOf(start);
    costs_.assign(width_, 0);
    Extend(0, 0);
    if (found_.empty()) return std::nullopt;
    return RanksOf(found_);
  }

 private:
  struct Choice {
    int node = 0;
    size_t costs = 0;  // into costs_
  };

  std::vector<int> LeftByNode() const {
    std::vector<int> left(static_cast<size_t>(range_.nodes()) * rails_count_);
    std::vector<int> on_rail(rails_.chunk);
    for (int node = 0; node < range_.nodes(); ++node) {
      std::fill(on_rail.begin(), on_rail.end(), 0);
      for (uint64_t mask = free_[range_.first() + node]; mask != 0; mask &= mask - 1) {
        const int rail = rails_.RailOf(std::countr_zero(mask));
        if (rail >= 0) ++on_rail[rail];
      }
      int* const of_node = &left[node * rails_count_];
      if (rails_.spans) {
        std::copy(on_rail.begin(), on_rail.end(), of_node);
      } else {
        *of_node = *std::min_element(on_rail.begin(), on_rail.end());
      }
    }
    return left;
  }

  // Cells in an order in which those that exchange most follow one another.
  std::vector<int> CellOrder() const {
    std::array<int, kAxes> axes;
    std::iota(axes.begin(), axes.end(), 0);
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return grid_.axes[a].weight > grid_.axes[b].weight; });
    std::vector<int> cells(grid_.cells);
    std::iota(cells.begin(), cells.end(), 0);
    std::sort(cells.begin(), cells.end(), [&](int a, int b) {
      for (int i = kAxes - 1; i >= 0; --i) {
        const int at_a = grid_.Coordinate(a, axes[i]);
        const int at_b = grid_.Coordinate(b, axes[i]);
        if (at_a != at_b) return at_a < at_b;
      }
      return false;
    });
    return cells;
  }

  void MakeItems() {
    std::vector<int> first_item(grid_.cells, -1);  // by cell, of those made
    for (const int cell : CellOrder()) {
      const int first = static_cast<int>(items_.size());
      for (int t = 0; t < per_cell_; ++t) {
        Item item = {.cell = cell, .rail = rails_.spans ? t % rails_.chunk : 0};
        item.first_of_cell = t == 0;
        if (t > 0) item.cell_first = first;
        grid_.ForEachNeighbour(cell, [&](int other, int64_t bytes) {
          if (first_item[other] >= 0) item.edges.push_back({first_item[other] + t, bytes});
        });
        if (per_cell_ > 1) AddTensorEdges(first, t, item);
        AddGroup(cell, kPipelineAxis, first_item, item.pipeline);
        AddGroup(cell, kContextAxis, first_item, item.context);
        AddRuns(int64_t{cell} * rails_.tensor + t, item);
        items_.push_back(std::move(item));
      }
      first_item[cell] = first;
    }
    open_bytes_.assign(items_.size(), 0);
    for (const Item& item : items_) {
      for (const auto& [other, bytes] : item.edges) open_bytes_[other] += bytes;
    }
  }

  void AddGroup(int cell, int axis, const std::vector<int>& first_item,
                std::vector<int>& members) const {
    const Axis& of = grid_.axes[axis];
    const int base = cell - grid_.Coordinate(cell, axis) * of.stride;
    for (int i = 0; i < of.degree; ++i) {
      const int other = first_item[base + i * of.stride];
      if (other >= 0) members.push_back(other);
    }
  }

  void AddRuns(int64_t rank, Item& item) {
    for (size_t i = 0; i < shape_.topology.size(); ++i) {
      const TopologyConstraint& constraint = shape_.topology[i];
      const int64_t run = rank / constraint.ranks;
      const auto [first, fresh] =
          first_of_run_.try_emplace({i, run}, static_cast<int>(items_.size()));
      if (fresh || constraint.preferred) continue;
      item.together.push_back({first->second, DepthOfLevel(cluster_, constraint.within)});
    }
  }

  // Whether a node is in the groups where the item's runs began.
  bool MayTake(const Item& item, int node) const {
    return std::all_of(item.together.begin(), item.together.end(), [&](const auto& with) {
      const auto [other, depth] = with;
      if (depth < 0) return false;
      if (depth >= range_.depths()) return node_of_[other] == node;
      return range_.GroupOf(node, depth) == range_.GroupOf(node_of_[other], depth);
    });
  }

  void AddTensorEdges(int first, int t, Item& item) const {
    const planner::EdgeTraffic& edge = shape_.traffic[0];
    const auto bytes = static_cast<int64_t>(edge.next_bytes + edge.previous_bytes);
    if (edge.pattern == Axis::Pattern::kPairs) {
      for (int other = 0; other < t; ++other) {
        item.edges.push_back({first + other, static_cast<int64_t>(2 * edge.next_bytes)});
      }
      return;
    }
    if (t > 0) item.edges.push_back({first + t - 1, bytes});
    if (t == rails_.tensor - 1 && edge.pattern == Axis::Pattern::kRing) {
      item.edges.push_back(
          {first, static_cast<int64_t>(static_cast<double>(bytes) * edge.closing)});
    }
  }

  // Whether an item in `zone` makes a group split that was whole so far.
  static bool Splits(const std::vector<int>& members, const std::vector<int>& zone_of, int zone) {
    if (members.empty() || zone_of[members[0]] == zone) return false;
    return std::all_of(members.begin(), members.end(),
                       [&](int member) { return zone_of[member] == zone_of[members[0]]; });
  }

  void AddSplits(const Item& item, const std::vector<int>& zone_of, int zone,
                 int64_t* costs) const {
    if (!item.first_of_cell) return;
    costs[kSplitPipelines] += Splits(item.pipeline, zone_of, zone);
    costs[kSplitContexts] += Splits(item.context, zone_of, zone);
  }

  // Of ranks that need not lie in the range.
  std::vector<int64_t> CostsOf(const std::vector<Device>& ranks) const {
    std::vector<int64_t> costs(width_, 0);
    std::vector<int> nodes, zones;
    for (const Item& item : items_) {
      const size_t t = nodes.size() % per_cell_;
      const int node = ranks[static_cast<size_t>(item.cell) * rails_.tensor + t].node;
      const int zone = cluster_.GroupOf(node, cluster_.pipeline_depth());
      for (const auto& [other, bytes] : item.edges) {
        const int depth = cluster_.MeetingDepth(node, nodes[other]);
        costs[kFirstBytes + cluster_.AccountedDepth(depth)] += bytes;
      }
      AddSplits(item, zones, zone, costs.data());
      nodes.push_back(node);
      zones.push_back(zone);
    }
    return costs;
  }

  bool BeatsBest(const int64_t* costs) const {
    return std::lexicographical_compare(costs, costs + width_, best_.begin(), best_.end());
  }

  // Whether the items from `at` on could still cost less than the best. Of the bytes that are not
  // placed, those to a placed item meet no deeper than in the smallest group around that item that
  // has room left; those between others meet outside the groups of a depth unless the room there
  // holds them. All bytes together are always the same.
  bool CanBeatBest(size_t at, size_t costs) {
    bound_.assign(costs_.begin() + static_cast<ptrdiff_t>(costs),
                  costs_.begin() + static_cast<ptrdiff_t>(costs + width_));
    for (size_t i = 0; i < at; ++i) {
      if (open_bytes_[i] == 0) continue;
      const int node = node_of_[i];
      int depth = range_.depths();
      if (left_in_node_[node] == 0) {
        do --depth;
        while (depth > 0 && left_in_group_[range_.GroupOf(node, depth)] == 0);
      }
      bound_[kFirstBytes + cluster_.AccountedDepth(depth)] += open_bytes_[i];
    }
    for (int i = 0; i < kFirstBytes; ++i) {
      if (bound_[i] != best_[i]) return bound_[i] < best_[i];
    }
    int64_t least = 0, best = 0;  // bytes that meet at the depth or further out
    for (int depth = 0; kFirstBytes + depth < innermost_; ++depth) {
      least += bound_[kFirstBytes + depth];
      best += best_[kFirstBytes + depth];
      const int64_t with_loose = least + LooseOutside(at, depth + 1);
      if (with_loose != best) return with_loose < best;
    }
    return false;
  }

  // Bytes among the items from `at` on that no arrangement keeps inside groups of `depth`.
  int64_t LooseOutside(size_t at, int depth) const {
    if (loose_bytes_[at] == 0) return 0;
    double inside = 0;
    int left = static_cast<int>(items_.size() - at);
    for (int room = most_room_; room > 0 && left > 0; --room) {
      const int taken = std::min(left, room * groups_with_[depth * (most_room_ + 1) + room]);
      inside += taken * rates_[at * (most_room_ + 1) + room];
      left -= taken;
    }
    constexpr double kRounding = 0.25;
    return std::max<int64_t>(
        0, loose_bytes_[at] - static_cast<int64_t>(std::floor(inside + kRounding)));
  }

  // For the items from each one on: their bytes among each other, and the most that any up to so
  // many of them exchange, per item. Of many items nothing is known.
  void FindRates() {
    constexpr size_t kMostItems = 10;
    const size_t count = items_.size();
    loose_bytes_.assign(count + 1, 0);
    most_room_ = static_cast<int>(count);
    if (count > kMostItems) return;
    rates_.assign((count + 1) * (count + 1), 0);
    std::vector<std::vector<int64_t>> bytes(count, std::vector<int64_t>(count, 0));
    for (size_t i = 0; i < count; ++i) {
      for (const auto& [other, edge] : items_[i].edges) bytes[other][i] += edge;
    }
    std::vector<int64_t> inside(size_t{1} << count, 0);  // of sets
    std::vector<int64_t> most(count + 1, 0);             // by size
    for (size_t at = count; at-- > 0;) {
      for (size_t rest = 0; rest < size_t{1} << (count - at - 1); ++rest) {
        const size_t others = rest << (at + 1);
        const size_t set = others | size_t{1} << at;
        inside[set] = inside[others];
        for (size_t left = others; left != 0; left &= left - 1) {
          inside[set] += bytes[at][std::countr_zero(left)];
        }
        int64_t& of_size = most[std::popcount(set)];
        of_size = std::max(of_size, inside[set]);
        loose_bytes_[at] = inside[set];  // of the last set: all
      }
      double* const rates = &rates_[at * (count + 1)];
      for (size_t size = 1; size <= count; ++size) {
        rates[size] =
            std::max(rates[size - 1], static_cast<double>(most[size]) / static_cast<double>(size));
      }
    }
  }

  // The choices of one item and their costs lie on two stacks.
  void Extend(size_t at, size_t costs) {
    const auto begin_of = [](auto& all, size_t i) {
      return all.begin() + static_cast<ptrdiff_t>(i);
    };
    if (at == items_.size()) {
      best_.assign(begin_of(costs_, costs), begin_of(costs_, costs + width_));
      found_ = node_of_;
      return;
    }
    if (!CanBeatBest(at, costs)) return;
    const size_t first_choice = choices_.size();
    const size_t first_costs = costs_.size();
    if (!CollectChoices(at, costs)) return;
    std::sort(
        begin_of(choices_, first_choice), choices_.end(), [&](const Choice& a, const Choice& b) {
          const int64_t* const x = &costs_[a.costs];
          const int64_t* const y = &costs_[b.costs];
          const auto differ = std::mismatch(x, x + width_, y);
          return differ.first == x + width_ ? a.node < b.node : *differ.first < *differ.second;
        });
    const size_t end = choices_.size();
    for (size_t i = first_choice; i < end && budget_ >= 0; ++i) {
      const Choice choice = choices_[i];
      if (!BeatsBest(&costs_[choice.costs])) break;
      Put(at, choice.node, 1);
      Extend(at + 1, choice.costs);
      Put(at, choice.node, -1);
    }
    choices_.resize(first_choice);
    costs_.resize(first_costs);
  }

  // False: the budget is used up.
  bool CollectChoices(size_t at, size_t costs) {
    const Item& item = items_[at];
    int first = 0, end = range_.nodes();
    if (item.cell_first >= 0) {
      const int domain = range_.GroupOf(node_of_[item.cell_first], cluster_.domain_depth());
      first = range_.FirstOf(domain);
      end = range_.EndOf(domain);
    }
    ++round_;
    for (int node = first; node < end; ++node) {
      if (left_[node * rails_count_ + item.rail] == 0 || !MayTake(item, node)) continue;
      int64_t& tried = tried_[like_.KeyOf(node, in_group_, in_node_[node])];
      if (tried == round_) continue;
      tried = round_;
      if (--budget_ < 0) return false;
      const size_t with = costs_.size();
      costs_.resize(with + width_);
      std::copy_n(&costs_[costs], width_, &costs_[with]);
      for (const auto& [other, bytes] : item.edges) {
        costs_[with + kFirstBytes + range_.Meeting(node, node_of_[other])] += bytes;
      }
      AddSplits(item, zone_of_, ZoneOf(node), &costs_[with]);
      if (BeatsBest(&costs_[with])) {
        choices_.push_back({node, with});
      } else {
        costs_.resize(with);
      }
    }
    return true;
  }

  int ZoneOf(int node) const { return range_.GroupOf(node, cluster_.pipeline_depth()); }

  void AddLeft(int node, int count) {
    CountRoom(range_.depths(), left_in_node_[node], left_in_node_[node] + count);
    left_in_node_[node] += count;
    for (int depth = 0; depth < range_.depths(); ++depth) {
      int& left = left_in_group_[range_.GroupOf(node, depth)];
      CountRoom(depth, left, left + count);
      left += count;
    }
  }

  void CountRoom(int depth, int before, int after) {
    int* const groups = &groups_with_[depth * (most_room_ + 1)];
    --groups[std::min(before, most_room_)];
    ++groups[std::min(after, most_room_)];
  }

  void Put(size_t at, int node, int sign) {
    const Item& item = items_[at];
    node_of_[at] = sign > 0 ? node : -1;
    zone_of_[at] = ZoneOf(node);
    for (const auto& [other, bytes] : item.edges) open_bytes_[other] -= sign * bytes;
    left_[node * rails_count_ + item.rail] -= sign;
    AddLeft(node, -sign);
    in_node_[node] += sign;
    for (int depth = 0; depth < range_.depths(); ++depth) {
      in_group_[range_.GroupOf(node, depth)] += sign;
    }
  }

  // Devices: of each rail of a node the lowest that is left.
  std::vector<Device> RanksOf(const std::vector<int>& node_of) const {
    std::vector<Device> ranks(static_cast<size_t>(grid_.cells) * rails_.tensor);
    std::map<int, uint64_t> masks;
    const auto take = [&](int node, int rail) {
      uint64_t& mask = masks.emplace(node, free_[node]).first->second;
      for (uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        const int device = std::countr_zero(rest);
        if (rails_.RailOf(device) != rail) continue;
        mask &= ~(uint64_t{1} << device);
        return Device{node, device};
      }
      return Device{};
    };
    for (size_t i = 0; i < items_.size(); ++i) {
      const size_t from = static_cast<size_t>(items_[i].cell) * rails_.tensor;
      const int node = range_.first() + node_of[i];
      if (per_cell_ > 1) {
        ranks[from + i % per_cell_] = take(node, items_[i].rail);
        continue;
      }
      for (int t = 0; t < rails_.tensor; ++t) ranks[from + t] = take(node, t % rails_.chunk);
    }
    return ranks;
  }

  const Cluster& cluster_;
  const std::vector<uint64_t>& free_;
  const Rails rails_;
  const Shape& shape_;
  const Grid grid_;
  const NodeRange range_;
  int64_t budget_;      // choices that may still be looked at
  const int per_cell_;  // items of a cell
  const int rails_count_;
  std::vector<int> left_;  // by node, rail
  const Likeness like_;
  std::vector<int> in_node_, in_group_;            // items placed there
  std::vector<int> left_in_node_, left_in_group_;  // of all rails
  std::vector<int64_t> tried_;                     // by key: the last round in which it was
  int64_t round_ = 0;
  const int width_;      // of costs
  const int innermost_;  // of them
  std::vector<Item> items_;
  std::map<std::pair<size_t, int64_t>, int> first_of_run_;  // item, by constraint and run
  std::vector<int64_t> loose_bytes_;                        // see FindRates
  std::vector<double> rates_;                               // by first item, room
  std::vector<int> groups_with_;  // by depth, room: room for more counts as for all items
  int most_room_ = 0;
  std::vector<int64_t> open_bytes_;  // by item: to those that are not placed
  std::vector<int> node_of_;         // by item, -1: not yet
  std::vector<int> zone_of_;
  std::vector<int64_t> costs_;  // all that are under consideration, width_ each
  std::vector<Choice> choices_;
  std::vector<int64_t> best_, bound_;
  std::vector<int> found_;
};

}  // namespace

std::optional<std::vector<Device>> SearchExactly(const Cluster& cluster,
                                                 const std::vector<uint64_t>& free,
                                                 const Rails& rails, const Shape& shape,
                                                 const std::vector<Device>& start,
                                                 const topology::Group& range, int64_t budget) {
  return Search(cluster, free, rails, shape, range, budget).Run(start);
}

}  // namespace strata::scheduler
