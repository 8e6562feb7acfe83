#include "program/builder/residency.h"

#include <algorithm>

#include "common/check.h"

namespace strata::program {

ResidencyPlan PlanResidency(const std::vector<int>& uses, int resident, int moved) {
  STRATA_CHECK(moved >= 1 && moved <= resident);
  struct Place {
    int layer = -1;
    int last_use = -1;
  };
  std::vector<Place> window(resident);
  ResidencyPlan plan{std::vector<int>(uses.size(), -1),
                     std::vector<std::vector<Fetch>>(uses.size())};
  std::vector<Fetch> together;  // fetches that begin with the next full group
  int begin = 0;                // the use before which they can begin
  const auto flush = [&] {
    for (const Fetch& fetch : together) plan.before[begin].push_back(fetch);
    together.clear();
  };
  for (size_t u = 0; u < uses.size(); ++u) {
    const int use = static_cast<int>(u);
    auto place = std::find_if(window.begin(), window.end(),
                              [&](const Place& p) { return p.layer == uses[u]; });
    if (place == window.end()) {
      place = std::min_element(window.begin(), window.end(), [](const Place& a, const Place& b) {
        return a.last_use < b.last_use;
      });
      const int free_from = place->last_use + 1;
      // A group whose slots become free only after its first use would come too late: it is cut
      // there.
      if (!together.empty() && std::max(begin, free_from) > together.front().use) flush();
      begin = std::max(begin, free_from);
      together.push_back({use, uses[u], static_cast<int>(place - window.begin())});
      place->layer = uses[u];
      if (static_cast<int>(together.size()) == moved) flush();
    }
    place->last_use = use;
    plan.place_of_use[u] = static_cast<int>(place - window.begin());
  }
  flush();
  return plan;
}

}  // namespace strata::program
