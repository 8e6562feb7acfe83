// Why a job cannot be placed, in numbers, and what would have to change.
#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/placement/cells.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/runs.h"

namespace strata::scheduler {
namespace {

using planner::Degrees;
using planner::Dimension;
using topology::Cluster;
using topology::Node;

constexpr size_t kMostNamed = 3;  // nodes or groups that a sentence names

size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }

std::string Counted(int64_t count, const std::string& one, const std::string& many) {
  return absl::StrCat(count, " ", count == 1 ? one : many);
}

// Of the rails that give most cells.
struct Supply {
  std::string kind;
  int64_t devices = 0;
  Cells cells;
  int64_t count() const { return cells.first.empty() ? 0 : cells.count(); }
};

Supply SupplyOf(const Cluster& cluster, const Occupancy& occupancy, const std::string& kind,
                int64_t tensor) {
  Supply supply = {.kind = kind};
  const std::vector<uint64_t> free = FreeOfKind(cluster, occupancy, kind);
  for (const uint64_t mask : free) supply.devices += std::popcount(mask);
  if (supply.devices < tensor) return supply;
  for (const Rails& rails : RailsToTry(cluster, kind, tensor)) {
    Cells cells = FormCells(cluster, free, rails);
    if (supply.cells.first.empty() || cells.count() > supply.cells.count()) {
      supply.cells = std::move(cells);
    }
  }
  if (tensor == 1) return supply;
  Cells uneven = FormUnevenCells(cluster, free, tensor, supply.count() + 1);
  if (uneven.count() > supply.count()) supply.cells = std::move(uneven);
  return supply;
}

class Explainer {
 public:
  Explainer(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
            const Occupancy& held_back)
      : cluster_(cluster),
        occupancy_(occupancy),
        held_back_(held_back),
        ideal_(Occupancy::Ideal(cluster)),
        shape_(shape),
        tensor_(shape.degrees[0]),
        needed_(shape.ranks() / std::max<int64_t>(1, shape.degrees[0])) {}

  Refusal Explain() {
    Refusal refusal;
    ChooseKind();
    if (now_.kind.empty() || most_.devices == 0) {
      refusal.infeasible = true;
      refusal.reason = NoSuchKind();
      refusal.nearest = NearestOfOtherKind();
      return refusal;
    }
    refusal.infeasible = most_.count() < needed_;
    if (refusal.infeasible) {
      refusal.reason = absl::StrCat(Needs(), "; the whole cluster holds ", Arithmetic());
      refusal.nearest = Nearest();
      return refusal;
    }
    FindMissing();
    refusal.reason = absl::StrCat(Needs(), "; ", now_.count(), now_.count() == 1 ? " is" : " are",
                                  " free", Blocking());
    refusal.starts_when = StartsWhen();
    return refusal;
  }

 private:
  // For "gpu" the kind that comes nearest.
  void ChooseKind() {
    for (const std::string& kind : KindsFor(cluster_, shape_.device)) {
      Supply most = SupplyOf(cluster_, ideal_, kind, tensor_);
      Supply now = SupplyOf(cluster_, occupancy_, kind, tensor_);
      const auto key = [&](const Supply& all, const Supply& free) {
        return std::tuple(std::min(all.count(), needed_), free.count(), all.devices);
      };
      if (now_.kind.empty() || key(most, now) > key(most_, now_)) {
        most_ = std::move(most);
        now_ = std::move(now);
      }
    }
  }

  std::vector<std::string> KindsWithDevices() const {
    std::set<std::string> kinds;
    for (const Node& node : cluster_.nodes()) {
      if (node.devices > 0) kinds.insert(node.kind);
    }
    return {kinds.begin(), kinds.end()};
  }

  std::string NoSuchKind() const {
    const std::vector<std::string> kinds = KindsWithDevices();
    return absl::StrCat("no node has devices of kind ", shape_.device,
                        kinds.empty()
                            ? " (the cluster is empty)"
                            : absl::StrCat(" (there are: ", absl::StrJoin(kinds, ", "), ")"));
  }

  std::string Place() const {
    if (cluster_.domain_depth() == 0) return "";
    return absl::StrCat(", each inside one ", cluster_.DepthName(cluster_.domain_depth()));
  }

  std::string Needs() const {
    if (tensor_ == 1) {
      return absl::StrCat("needs ", Counted(needed_, "device", "devices"), " of kind ", most_.kind);
    }
    return absl::StrCat("needs ", needed_, needed_ == 1 ? " whole cell of " : " whole cells of ",
                        tensor_, " ", most_.kind, " devices (tensor ", tensor_, ")", Place());
  }

  // "12: 13 domains with 110 devices; 14 devices are left over by rounding down (d3 2, …)".
  std::string Arithmetic() const {
    const int64_t count = most_.count();
    const int64_t used = count * tensor_;
    std::string text = absl::StrCat(count, " (", Counted(most_.devices, "device", "devices"));
    if (tensor_ > 1 && most_.devices > used) {
      const std::vector<uint64_t> free = FreeOfKind(cluster_, ideal_, most_.kind);
      std::vector<std::string> rounded;
      size_t domains = 0;
      int64_t by_rails = 0;  // cells that are lacking though there are devices enough
      for (const topology::Group& group : cluster_.groups()) {
        if (group.depth != cluster_.domain_depth()) continue;
        int64_t devices = 0;
        for (int node = group.first_node; node < group.end_node; ++node) {
          devices += std::popcount(free[node]);
        }
        const int64_t cells =
            count == 0 ? 0 : most_.cells.CountIn(group.first_node, group.end_node);
        domains += devices > 0;
        by_rails += devices / tensor_ - cells;
        if (devices > cells * tensor_ && rounded.size() <= kMostNamed) {
          rounded.push_back(absl::StrCat(
              NameOf(group), ": ", Counted(devices, "device makes ", "devices make "), cells));
        }
      }
      if (rounded.size() > kMostNamed) rounded.back() = "…";
      absl::StrAppend(&text, " in ", domains, " ", DomainWord(domains), ", ", most_.devices - used,
                      " of them left over by rounding down",
                      by_rails == 0 ? ""
                                    : " and because a tensor coordinate has one local index "
                                      "(modulo the tensor degree) on all nodes",
                      ": ", absl::StrJoin(rounded, "; "));
    }
    return absl::StrCat(text, "), even with every node healthy and free");
  }

  std::string DomainWord(size_t count) const {
    const std::string name =
        cluster_.domain_depth() == 0 ? "domain" : cluster_.DepthName(cluster_.domain_depth());
    return count == 1 ? name : name + "s";
  }
  std::string NameOf(const topology::Group& group) const {
    if (!group.name.empty()) return group.name;
    return group.first_node < group.end_node && group.depth > 0
               ? cluster_.nodes()[group.first_node].name
               : "the cluster";
  }

  int Lacking(int node) const { return std::popcount(ideal_.free[node] & ~occupancy_.free[node]); }

  bool FitsWith(const std::vector<int>& nodes, size_t begin, size_t end) const {
    Occupancy occupancy = occupancy_;
    for (size_t i = begin; i < end; ++i) occupancy.free[nodes[i]] = ideal_.free[nodes[i]];
    return SupplyOf(cluster_, occupancy, most_.kind, tensor_).count() >= needed_;
  }

  // Nodes that would help, fewest busy devices first, and how many of them are enough.
  void FindMissing() {
    for (size_t node = 0; node < cluster_.nodes().size(); ++node) {
      if (cluster_.nodes()[node].kind == most_.kind && Lacking(static_cast<int>(node)) > 0) {
        helpers_.push_back(static_cast<int>(node));
      }
    }
    // Unhealthy ones after those that only have to become free.
    std::stable_sort(helpers_.begin(), helpers_.end(), [&](int a, int b) {
      return std::tuple(!cluster_.nodes()[a].healthy, Lacking(a)) <
             std::tuple(!cluster_.nodes()[b].healthy, Lacking(b));
    });
    size_t low = 1, high = helpers_.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      FitsWith(helpers_, 0, middle) ? high = middle : low = middle + 1;
    }
    enough_ = high;
  }

  std::string WhyNone(int node) const {
    const Node& described = cluster_.nodes()[node];
    if (!described.healthy) return "takes no new ranks";
    if (!held_back_.free.empty() && held_back_.free[node] != 0) return "is held back";
    return absl::StrCat("has ", std::popcount(occupancy_.free[node]), " of ", described.devices,
                        " free");
  }

  std::string Blocking() const {
    std::vector<std::string> named;
    for (const int node : helpers_) {
      if (named.size() == kMostNamed) {
        named.push_back("…");
        break;
      }
      named.push_back(absl::StrCat(cluster_.nodes()[node].name, " ", WhyNone(node)));
    }
    return named.empty() ? "" : absl::StrCat(": ", absl::StrJoin(named, ", "));
  }

  // The devices that would have to become free on a healthy node for one more cell on it, such as
  // "device 1 and one of devices 3, 7 of n0 become free": which ones matters, for a tensor
  // coordinate has one rail. Empty when nothing less than the whole node is known to be enough.
  std::string OneMoreCellOn(int node) const {
    if (now_.cells.first.empty() || now_.cells.rails.spans || tensor_ > 64) return "";
    std::vector<int> free(tensor_, 0);
    std::vector<std::vector<int>> busy(tensor_);
    for (uint64_t mask = ideal_.free[node]; mask != 0; mask &= mask - 1) {
      const int device = std::countr_zero(mask);
      const bool is_free = (occupancy_.free[node] >> device & 1) != 0;
      is_free ? void(++free[device % tensor_]) : busy[device % tensor_].push_back(device);
    }
    const int more = now_.cells.first[node + 1] - now_.cells.first[node] + 1;
    size_t needed = 0;
    std::vector<int> certain;
    std::vector<std::string> parts;
    for (size_t rail = 0; rail < busy.size(); ++rail) {
      const auto lacking = static_cast<size_t>(std::max(0, more - free[rail]));
      if (lacking > busy[rail].size()) return "";
      needed += lacking;
      if (lacking == busy[rail].size()) {
        certain.insert(certain.end(), busy[rail].begin(), busy[rail].end());
      } else if (lacking > 0) {
        parts.push_back(absl::StrCat(lacking == 1 ? "one" : absl::StrCat(lacking), " of devices ",
                                     absl::StrJoin(busy[rail], ", ")));
      }
    }
    if (static_cast<int>(needed) == Lacking(node)) return "";
    std::sort(certain.begin(), certain.end());
    if (!certain.empty()) {
      parts.insert(parts.begin(), absl::StrCat(certain.size() == 1 ? "device " : "devices ",
                                               absl::StrJoin(certain, ", ")));
    }
    return absl::StrCat(absl::StrJoin(parts, " and "), " of ", cluster_.nodes()[node].name,
                        needed == 1 ? " becomes free" : " become free");
  }

  std::string Change(int node, bool one_cell) const {
    const Node& described = cluster_.nodes()[node];
    if (!described.healthy) {
      const bool whole = static_cast<int>(described.free.size()) == described.devices;
      return absl::StrCat(
          described.name, " takes new ranks again",
          whole ? "" : absl::StrCat(" with all ", described.devices, " devices free"));
    }
    if (std::string devices = one_cell ? OneMoreCellOn(node) : ""; !devices.empty()) return devices;
    return absl::StrCat(Counted(Lacking(node), "more device", "more devices"), " of ",
                        described.name, Lacking(node) == 1 ? " becomes free" : " become free");
  }

  std::string StartsWhen() const {
    if (tensor_ == 1) return DevicesMissing();
    std::vector<std::string> changes;
    if (enough_ == 1) {  // each of these alone is enough
      const bool one_cell = needed_ - now_.count() == 1;
      constexpr size_t kMostTried = 16;
      for (size_t i = 0; i < std::min(kMostTried, helpers_.size()); ++i) {
        if (changes.size() < kMostNamed && FitsWith(helpers_, i, i + 1)) {
          changes.push_back(Change(helpers_[i], one_cell));
        }
      }
      AddUnhealthy(one_cell, changes);
      return absl::StrCat("starts when ", absl::StrJoin(changes, " or "));
    }
    for (size_t i = 0; i < std::min(enough_, kMostNamed); ++i) {
      changes.push_back(Change(helpers_[i], false));
    }
    if (enough_ > kMostNamed) {
      changes.push_back(Counted(static_cast<int64_t>(enough_ - kMostNamed), "further node is whole",
                                "further nodes are whole"));
    }
    return absl::StrCat("starts when ", absl::StrJoin(changes, " and "), ", or as much elsewhere");
  }

  // A node that only has to be repaired is worth telling beside those that are busy.
  void AddUnhealthy(bool one_cell, std::vector<std::string>& changes) const {
    for (size_t i = 0; i < helpers_.size(); ++i) {
      if (cluster_.nodes()[helpers_[i]].healthy) continue;
      const std::string change = Change(helpers_[i], one_cell);
      if (std::find(changes.begin(), changes.end(), change) == changes.end() &&
          FitsWith(helpers_, i, i + 1)) {
        changes.push_back(change);
      }
      return;
    }
  }

  // Of a job that any devices suffice for.
  std::string DevicesMissing() const {
    const int64_t missing = needed_ - now_.count();
    int64_t busy = 0;  // on healthy nodes
    std::vector<int> ill;
    for (const int node : helpers_) {
      cluster_.nodes()[node].healthy ? void(busy += Lacking(node)) : ill.push_back(node);
    }
    std::stable_sort(ill.begin(), ill.end(), [&](int a, int b) { return Lacking(a) > Lacking(b); });
    const auto become_free = [](int64_t count) {
      return absl::StrCat(Counted(count, "more device becomes", "more devices become"), " free");
    };
    if (missing <= busy) {
      const bool repair = !ill.empty() && Lacking(ill[0]) >= missing;
      return absl::StrCat("starts when ", become_free(missing),
                          repair ? absl::StrCat(" or ", Change(ill[0], false)) : "");
    }
    std::vector<std::string> changes;
    int64_t left = missing;
    size_t repaired = 0;
    for (; repaired < ill.size() && left > 0; ++repaired) {
      left -= Lacking(ill[repaired]);
      if (changes.size() < kMostNamed) changes.push_back(Change(ill[repaired], false));
    }
    if (repaired == 1 && left <= 0) return absl::StrCat("starts when ", changes[0]);
    if (repaired > changes.size()) {
      changes.push_back(Counted(static_cast<int64_t>(repaired - changes.size()),
                                "further node takes new ranks again",
                                "further nodes take new ranks again"));
    }
    if (left > 0) changes.push_back(become_free(left));
    return absl::StrCat("starts when ", absl::StrJoin(changes, " and "),
                        repaired < ill.size() ? ", or as much elsewhere" : "");
  }

  static std::vector<int64_t> DivisorsBelow(int64_t value) {
    std::vector<int64_t> divisors;
    for (int64_t d = value / 2; d >= 1; --d) {
      if (value % d == 0) divisors.push_back(d);
    }
    return divisors;
  }

  // Data degrees to try, descending.
  std::vector<Degrees> FewerData(const Degrees& degrees) const {
    const int64_t group = degrees[Index(Dimension::kData)];
    const int64_t all = group * degrees[Index(Dimension::kReplicate)];
    std::vector<int64_t> fewer = shape_.other_data;
    if (fewer.empty()) {
      fewer = DivisorsBelow(all);
      fewer.insert(fewer.end(), shape_.fewer_data.begin(), shape_.fewer_data.end());
      std::sort(fewer.begin(), fewer.end(), std::greater<>());
      fewer.erase(std::unique(fewer.begin(), fewer.end()), fewer.end());
    }
    std::vector<Degrees> found;
    for (const int64_t data : fewer) {
      const bool groups = degrees[Index(Dimension::kReplicate)] > 1 && data > group;
      if (groups && data % group != 0) continue;
      Degrees changed = degrees;
      changed[Index(Dimension::kData)] = groups ? group : data;
      changed[Index(Dimension::kReplicate)] = groups ? data / group : 1;
      found.push_back(changed);
    }
    return found;
  }

  // On an empty cluster. Every cell of a grid may go anywhere: a job fits when there are as many
  // cells as it needs.
  bool Fits(const Degrees& degrees) const {
    const auto [at, is_new] = most_ranks_.try_emplace(degrees[0], 0);
    if (is_new) {
      for (const std::string& kind : KindsFor(cluster_, shape_.device)) {
        const Supply supply = SupplyOf(cluster_, ideal_, kind, degrees[0]);
        at->second = std::max(at->second, supply.count() * degrees[0]);
      }
    }
    Shape shape;
    shape.degrees = degrees;
    return shape.ranks() <= at->second;
  }

  // First fewer replicas; then with a smaller tensor degree, pipeline or context.
  std::optional<Refusal::Nearest> Nearest() const {
    std::vector<Degrees> bases = {shape_.degrees};
    for (const Dimension dimension :
         {Dimension::kTensor, Dimension::kPipeline, Dimension::kContext, Dimension::kExpert}) {
      const size_t before = bases.size();
      for (const int64_t divisor : DivisorsBelow(shape_.degrees[Index(dimension)])) {
        for (size_t i = 0; i < before; ++i) {
          bases.push_back(bases[i]);
          bases.back()[Index(dimension)] = divisor;
        }
      }
    }
    for (const Degrees& base : bases) {
      std::vector<Degrees> tried = FewerData(base);
      if (base != shape_.degrees) tried.insert(tried.begin(), base);
      for (const Degrees& degrees : tried) {
        if (Fits(degrees)) return Told(degrees);
      }
    }
    return std::nullopt;
  }

  // Where no node has the kind: the kind on which most of the ranks fit, accelerators first.
  std::optional<Refusal::Nearest> NearestOfOtherKind() const {
    std::optional<Refusal::Nearest> best;
    for (const std::string& device : {std::string("gpu"), std::string("cpu")}) {
      for (const std::string& kind : KindsFor(cluster_, device)) {
        Shape other = shape_;
        other.device = kind;
        const Explainer on_it(cluster_, occupancy_, other, held_back_);
        std::optional<Refusal::Nearest> nearest =
            on_it.Fits(other.degrees) ? on_it.Told(other.degrees) : on_it.Nearest();
        if (!nearest || (best && nearest->ranks <= best->ranks)) continue;
        nearest->device = kind;
        nearest->text = absl::StrCat("device ", kind, " instead of ", shape_.device,
                                     nearest->degrees == other.degrees ? "" : ", ", nearest->text);
        best = std::move(nearest);
      }
    }
    return best;
  }

  Refusal::Nearest Told(const Degrees& degrees) const {
    Shape shape;
    shape.degrees = degrees;
    std::vector<std::string> changes;
    const auto told = [&](const char* name, int64_t now, int64_t was) {
      if (now != was) changes.push_back(absl::StrCat(name, " ", now, " instead of ", was));
    };
    for (const Dimension dimension :
         {Dimension::kTensor, Dimension::kContext, Dimension::kExpert, Dimension::kPipeline}) {
      const size_t i = Index(dimension);
      told(planner::NameOf(dimension), degrees[i], shape_.degrees[i]);
    }
    const auto data = [](const Degrees& all) {
      return all[Index(Dimension::kData)] * all[Index(Dimension::kReplicate)];
    };
    told("data", data(degrees), data(shape_.degrees));
    return {degrees, shape.ranks(), "",
            absl::StrCat(absl::StrJoin(changes, ", "), ": ", shape.ranks(), " of ", shape_.ranks(),
                         " ranks")};
  }

  const Cluster& cluster_;
  const Occupancy& occupancy_;
  const Occupancy& held_back_;
  const Occupancy ideal_;
  const Shape& shape_;
  const int64_t tensor_;
  const int64_t needed_;  // cells
  Supply now_, most_;
  mutable std::map<int64_t, int64_t> most_ranks_;  // of an empty cluster, by tensor degree
  std::vector<int> helpers_;
  size_t enough_ = 0;
};

}  // namespace

Refusal WhyNot(const Cluster& cluster, const Occupancy& occupancy, const Shape& shape,
               const Occupancy& held_back) {
  if (!shape.topology.empty()) {
    Shape without = shape;
    without.topology.clear();
    const Occupancy ideal = Occupancy::Ideal(cluster);
    const bool runs = Place(cluster, occupancy, without).has_value() ||
                      (Place(cluster, ideal, without).has_value() && !Place(cluster, ideal, shape));
    if (runs) return WhyNotInRuns(cluster, occupancy, shape);
  }
  return Explainer(cluster, occupancy, shape, held_back).Explain();
}

}  // namespace strata::scheduler
