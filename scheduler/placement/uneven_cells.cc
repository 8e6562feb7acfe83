// Cells that take unequally many devices of the rails: what is left where some devices of a domain
// are busy or broken.
#include <algorithm>
#include <bit>
#include <climits>
#include <map>
#include <numeric>
#include <utility>

#include "scheduler/placement/cells.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Free devices of a domain by local index modulo the tensor degree.
using Profile = std::vector<int>;

// How many devices of each rail a cell takes, so that all domains together hold most cells: a
// search over all sums, the one in proportion to what is free first, within a budget.
class RailSearch {
 public:
  RailSearch(const std::map<Profile, int>& domains, int tensor, int rails)
      : domains_(domains.begin(), domains.end()), taken_(rails, 0) {
    most_.push_back({});
    for (const auto& [profile, count] : domains_) {
      most_[0].push_back(std::accumulate(profile.begin(), profile.end(), 0));
    }
    most_.resize(rails + 1, most_[0]);
    for (int rail = 0; rail < rails; ++rail) {
      for (size_t i = 0; i < domains_.size(); ++i) {
        most_[rail + 1][i] = most_[rail][i] - domains_[i].first[rail];
      }
    }
    Extend(0, tensor, std::vector<int>(domains_.size(), most_[0].empty() ? 0 : 1 << 30));
  }

  const std::vector<int>& best() const { return best_; }  // by rail; empty: none holds any cell

 private:
  // `cells`: what each domain can hold by the rails decided on so far.
  void Extend(int rail, int left, const std::vector<int>& cells) {
    budget_ -= static_cast<int64_t>(domains_.size());
    if (budget_ < 0 || Bound(rail, left, cells) <= cells_) return;
    if (left == 0 || rail == static_cast<int>(taken_.size())) {
      if (left > 0) return;
      cells_ = Bound(rail, 0, cells);
      best_ = taken_;
      return;
    }
    const int share = Share(rail, left);
    for (int step = 0; step <= left; ++step) {
      for (const int take : {share - step, share + step}) {
        if (take < 0 || take > left || (step == 0 && take != share)) continue;
        taken_[rail] = take;
        Extend(rail + 1, left - take, take == 0 ? cells : Limited(rail, take, cells));
        taken_[rail] = 0;
        if (step == 0) break;
      }
    }
  }

  int64_t Bound(int rail, int left, const std::vector<int>& cells) const {
    int64_t bound = 0;
    for (size_t i = 0; i < domains_.size(); ++i) {
      const int rest = left == 0 ? cells[i] : most_[rail][i] / left;
      bound += static_cast<int64_t>(domains_[i].second) * std::min(cells[i], rest);
    }
    return bound;
  }

  std::vector<int> Limited(int rail, int take, std::vector<int> cells) const {
    for (size_t i = 0; i < domains_.size(); ++i) {
      cells[i] = std::min(cells[i], domains_[i].first[rail] / take);
    }
    return cells;
  }

  int Share(int rail, int left) const {
    int64_t here = 0, all = 0;
    for (size_t i = 0; i < domains_.size(); ++i) {
      here += static_cast<int64_t>(domains_[i].second) * domains_[i].first[rail];
      all += static_cast<int64_t>(domains_[i].second) * most_[rail][i];
    }
    return all == 0 ? 0 : static_cast<int>((left * here + all / 2) / all);
  }

  const std::vector<std::pair<Profile, int>> domains_;
  std::vector<std::vector<int>> most_;  // by rail, domain: devices of it and later ones
  std::vector<int> taken_, best_;
  int64_t cells_ = 0;
  int64_t budget_ = 200'000;
};

// Rails of a cell's coordinates: of each rail in turn as long as some are left.
std::vector<int> RailOfCoordinates(std::vector<int> taken, int tensor) {
  std::vector<int> rail_of;
  while (static_cast<int>(rail_of.size()) < tensor) {
    for (size_t rail = 0; rail < taken.size(); ++rail) {
      if (taken[rail]-- > 0) rail_of.push_back(static_cast<int>(rail));
    }
  }
  return rail_of;
}

// A domain's free devices by rail, in topology order.
std::vector<std::vector<Device>> ByRail(const topology::Group& domain,
                                        const std::vector<uint64_t>& free, int tensor, int rails) {
  std::vector<std::vector<Device>> by_rail(rails);
  for (int node = domain.first_node; node < domain.end_node; ++node) {
    for (uint64_t mask = free[node]; mask != 0; mask &= mask - 1) {
      const int device = std::countr_zero(mask);
      by_rail[device % tensor].push_back({node, device});
    }
  }
  return by_rail;
}

}  // namespace

Cells FormUnevenCells(const Cluster& cluster, const std::vector<uint64_t>& free, int64_t tensor,
                      int64_t at_least) {
  const int degree = static_cast<int>(std::min<int64_t>(tensor, INT_MAX));
  Cells cells = {.rails = {.tensor = degree, .chunk = 0, .spans = true},
                 .first = std::vector<int>(free.size() + 1, 0)};
  std::vector<const topology::Group*> domains;  // that hold a cell by number
  int64_t most = 0;
  for (const topology::Group& group : cluster.groups()) {
    if (group.depth != cluster.domain_depth()) continue;
    int devices = 0;
    for (int node = group.first_node; node < group.end_node; ++node) {
      devices += std::popcount(free[node]);
    }
    most += devices / degree;
    if (devices >= degree) domains.push_back(&group);
  }
  if (most < at_least) return cells;
  const int rails = std::min(degree, topology::kMostDevices);
  std::map<Profile, int> profiles;
  for (const topology::Group* domain : domains) {
    Profile profile;
    for (const auto& on_rail : ByRail(*domain, free, degree, rails)) {
      profile.push_back(static_cast<int>(on_rail.size()));
    }
    ++profiles[std::move(profile)];
  }
  const RailSearch search(profiles, degree, rails);
  if (search.best().empty()) return cells;
  const std::vector<int> rail_of = RailOfCoordinates(search.best(), degree);
  std::vector<std::vector<Device>> formed;
  for (const topology::Group* domain : domains) {
    const std::vector<std::vector<Device>> by_rail = ByRail(*domain, free, degree, rails);
    std::vector<size_t> next(rails, 0);
    for (bool whole = true; whole;) {
      std::vector<Device> cell;
      for (const int rail : rail_of) {
        whole = whole && next[rail] < by_rail[rail].size();
        if (whole) cell.push_back(by_rail[rail][next[rail]++]);
      }
      if (whole) formed.push_back(std::move(cell));
    }
  }
  // To be found by the nodes of their first devices.
  std::stable_sort(formed.begin(), formed.end(),
                   [](const auto& a, const auto& b) { return a[0].node < b[0].node; });
  for (const std::vector<Device>& cell : formed) {
    cells.devices.insert(cells.devices.end(), cell.begin(), cell.end());
    ++cells.first[cell[0].node + 1];
  }
  std::partial_sum(cells.first.begin(), cells.first.end(), cells.first.begin());
  return cells;
}

}  // namespace strata::scheduler
