#include "scheduler/placement/exact.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Of what is placed so far: split pipelines, split context groups, bytes by accounted depth.
using Costs = std::vector<int64_t>;
constexpr int kSplitPipelines = 0;
constexpr int kSplitContexts = 1;
constexpr int kFirstBytes = 2;

// What is placed as one: a whole cell on a node or, where cells may span nodes, one rank.
struct Item {
  int cell = 0;
  int rail = 0;         // of a rank; 0 of a cell
  int cell_first = -1;  // an earlier item of the same cell: in the same domain
  std::vector<std::pair<int, int64_t>> edges;  // to earlier items, with bytes
  std::vector<int> pipeline, context;          // the group's cells' first items that are earlier
  bool first_of_cell = true;
};

// Nodes that can be exchanged without changing any cost are tried once: a node or group that holds
// nothing of the job yet is like its siblings with the same free devices in the same arrangement.
class Likeness {
 public:
  Likeness(const Cluster& cluster, const std::vector<std::vector<int>>& left, int first, int end)
      : cluster_(cluster), first_(first), depths_(cluster.node_depth()) {
    chain_.assign(depths_ + 1, std::vector<int>(end - first, 0));
    std::map<std::vector<int>, int> known;
    const auto id = [&](std::vector<int> what) {
      return known.emplace(std::move(what), static_cast<int>(known.size())).first->second;
    };
    std::vector<int> shape(end - first);  // of the subtree that holds the node, by depth
    for (int node = first; node < end; ++node) {
      std::vector<int> what = {depths_};
      what.insert(what.end(), left[node - first].begin(), left[node - first].end());
      chain_[depths_][node - first] = shape[node - first] = id(std::move(what));
    }
    for (int depth = depths_ - 1; depth >= 0; --depth) {
      for (int node = first; node < end;) {
        const int stop = std::min(end, cluster.groups()[cluster.GroupOf(node, depth)].end_node);
        std::vector<int> what(shape.begin() + (node - first), shape.begin() + (stop - first));
        std::sort(what.begin(), what.end());
        what.insert(what.begin(), depth);
        const int group = id(std::move(what));
        for (; node < stop; ++node) {
          chain_[depth][node - first] = id({-1, group, chain_[depth + 1][node - first]});
          shape[node - first] = group;
        }
      }
    }
  }

  // Equal for nodes that are alike, given how much of the job each group and node holds.
  std::pair<int, int> KeyOf(int node, const std::vector<int>& in_group, int in_node) const {
    if (in_node > 0) return {-1, node};
    int depth = depths_;
    while (depth > 0 && in_group[cluster_.GroupOf(node, depth - 1)] == 0) --depth;
    const int parent = depth == 0 ? -1 : cluster_.GroupOf(node, depth - 1);
    return {parent + 1, chain_[depth][node - first_]};
  }

 private:
  const Cluster& cluster_;
  const int first_;
  const int depths_;
  std::vector<std::vector<int>> chain_;  // by depth, node: the subtrees from there to the node
};

class Search {
 public:
  Search(const Cluster& cluster, const std::vector<uint64_t>& free, const Rails& rails,
         const Shape& shape, const topology::Group& range, int64_t budget)
      : cluster_(cluster),
        free_(free),
        rails_(rails),
        shape_(shape),
        grid_(GridOf(shape)),
        first_(range.first_node),
        end_(range.end_node),
        budget_(budget),
        per_cell_(rails.spans ? rails.tensor : 1),
        left_(LeftByNode()),
        like_(cluster, left_, first_, end_),
        in_node_(end_ - first_, 0),
        in_group_(cluster.groups().size(), 0) {
    MakeItems();
  }

  std::optional<std::vector<Device>> Run(const std::vector<Device>& start) {
    node_of_.assign(items_.size(), -1);
    Costs costs(kFirstBytes + cluster_.node_depth() + 1, 0);
    best_ = CostsOf(start);
    Extend(0, costs);
    if (found_.empty()) return std::nullopt;
    return RanksOf(found_);
  }

 private:
  std::vector<std::vector<int>> LeftByNode() const {
    std::vector<std::vector<int>> left;
    for (int node = first_; node < end_; ++node) {
      std::vector<int> on_rail(rails_.chunk, 0);
      for (uint64_t mask = free_[node]; mask != 0; mask &= mask - 1) {
        const int rail = rails_.RailOf(std::countr_zero(mask));
        if (rail >= 0) ++on_rail[rail];
      }
      if (!rails_.spans) on_rail = {*std::min_element(on_rail.begin(), on_rail.end())};
      left.push_back(std::move(on_rail));
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
        items_.push_back(std::move(item));
      }
      first_item[cell] = first;
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

  int ZoneOf(int node) const { return cluster_.GroupOf(node, cluster_.pipeline_depth()); }

  // Whether placing an item on `node` makes a group split that was whole so far.
  bool Splits(const std::vector<int>& members, int node) const {
    if (members.empty()) return false;
    const int zone = ZoneOf(node_of_[members[0]]);
    for (const int member : members) {
      if (ZoneOf(node_of_[member]) != zone) return false;
    }
    return ZoneOf(node) != zone;
  }

  void Add(const Item& item, int node, Costs& costs) const {
    for (const auto& [other, bytes] : item.edges) {
      const int depth = cluster_.MeetingDepth(node, node_of_[other]);
      costs[kFirstBytes + cluster_.AccountedDepth(depth)] += bytes;
    }
    if (!item.first_of_cell) return;
    costs[kSplitPipelines] += Splits(item.pipeline, node);
    costs[kSplitContexts] += Splits(item.context, node);
  }

  Costs CostsOf(const std::vector<Device>& ranks) {
    Costs costs(kFirstBytes + cluster_.node_depth() + 1, 0);
    for (size_t i = 0; i < items_.size(); ++i) {
      const int64_t t = per_cell_ > 1 ? static_cast<int64_t>(i) % per_cell_ : 0;
      const int node = ranks[static_cast<int64_t>(items_[i].cell) * rails_.tensor + t].node;
      Add(items_[i], node, costs);
      node_of_[i] = node;
    }
    std::fill(node_of_.begin(), node_of_.end(), -1);
    return costs;
  }

  void Extend(size_t at, const Costs& costs) {
    if (at == items_.size()) {
      best_ = costs;
      found_ = node_of_;
      return;
    }
    const Item& item = items_[at];
    int first = first_, end = end_;
    if (item.cell_first >= 0) {
      const int domain = cluster_.GroupOf(node_of_[item.cell_first], cluster_.domain_depth());
      first = std::max(first, cluster_.groups()[domain].first_node);
      end = std::min(end, cluster_.groups()[domain].end_node);
    }
    std::vector<std::pair<Costs, int>> choices;
    std::vector<std::pair<int, int>> tried;
    for (int node = first; node < end; ++node) {
      if (left_[node - first_][item.rail] == 0) continue;
      const std::pair<int, int> key = like_.KeyOf(node, in_group_, in_node_[node - first_]);
      if (std::find(tried.begin(), tried.end(), key) != tried.end()) continue;
      tried.push_back(key);
      if (--budget_ < 0) return;
      Costs with = costs;
      Add(item, node, with);
      if (with < best_) choices.push_back({std::move(with), node});
    }
    std::stable_sort(choices.begin(), choices.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [with, node] : choices) {
      if (!(with < best_) || budget_ < 0) return;
      Put(at, node, 1);
      Extend(at + 1, with);
      Put(at, node, -1);
    }
  }

  void Put(size_t at, int node, int sign) {
    node_of_[at] = sign > 0 ? node : -1;
    left_[node - first_][items_[at].rail] -= sign;
    in_node_[node - first_] += sign;
    for (int depth = 0; depth < cluster_.node_depth(); ++depth) {
      in_group_[cluster_.GroupOf(node, depth)] += sign;
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
      if (per_cell_ > 1) {
        ranks[from + i % per_cell_] = take(node_of[i], items_[i].rail);
        continue;
      }
      for (int t = 0; t < rails_.tensor; ++t) ranks[from + t] = take(node_of[i], t % rails_.chunk);
    }
    return ranks;
  }

  const Cluster& cluster_;
  const std::vector<uint64_t>& free_;
  const Rails rails_;
  const Shape& shape_;
  const Grid grid_;
  const int first_, end_;               // nodes
  int64_t budget_;                      // choices that may still be looked at
  const int per_cell_;                  // items of a cell
  std::vector<std::vector<int>> left_;  // by node, rail
  const Likeness like_;
  std::vector<int> in_node_, in_group_;  // items placed there
  std::vector<Item> items_;
  std::vector<int> node_of_;  // by item, -1: not yet
  Costs best_;
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
