#include "program/compose/residency.h"

#include <algorithm>
#include <limits>
#include <map>

namespace strata::program {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// Per need, the next need of the same set; kNever: none.
std::vector<int> NextNeeds(const std::vector<Need>& needs) {
  std::vector<int> next(needs.size(), kNever);
  std::map<int, int> newest;  // by set
  for (int n = static_cast<int>(needs.size()) - 1; n >= 0; --n) {
    const auto [found, fresh] = newest.try_emplace(needs[n].set, n);
    if (!fresh) next[n] = found->second;
    found->second = n;
  }
  return next;
}

struct Present {
  int64_t bytes = 0;
  int fetch = -1;
  int last_use = -1;
  int next_need = kNever;
};

}  // namespace

ResidencyPlan PlanResidency(const std::vector<Need>& needs, int64_t budget) {
  const std::vector<int> next = NextNeeds(needs);
  ResidencyPlan plan;
  std::map<int, Present> present;  // by set
  int64_t used = 0;
  int begin = 0;  // the use before which the next fetch can begin
  for (size_t n = 0; n < needs.size(); ++n) {
    const Need& need = needs[n];
    auto here = present.find(need.set);
    if (here == present.end()) {
      while (used + need.bytes > budget) {
        // Needed again last; of those never needed again, the one whose last use is longest ago.
        auto leaving = present.end();
        for (auto p = present.begin(); p != present.end(); ++p) {
          if (p->second.last_use == need.use) continue;
          if (p->second.next_need != kNever && needs[p->second.next_need].use == need.use) continue;
          if (leaving == present.end() || p->second.next_need > leaving->second.next_need ||
              (p->second.next_need == leaving->second.next_need &&
               p->second.last_use < leaving->second.last_use)) {
            leaving = p;
          }
        }
        if (leaving == present.end()) break;  // all that is here is needed now
        begin = std::max(begin, leaving->second.last_use + 1);
        used -= leaving->second.bytes;
        present.erase(leaving);
      }
      plan.fetches.push_back({.before = std::min(begin, need.use), .need = static_cast<int>(n)});
      used += need.bytes;
      here = present.emplace(need.set, Present{.bytes = need.bytes}).first;
      here->second.fetch = static_cast<int>(plan.fetches.size()) - 1;
    }
    here->second.last_use = need.use;
    here->second.next_need = next[n];
    plan.fetch_of_need.push_back(here->second.fetch);
  }
  return plan;
}

void MoveTogether(int count, const std::vector<Need>& needs, ResidencyPlan& plan) {
  std::vector<Fetch>& fetches = plan.fetches;
  for (size_t first = 0; first < fetches.size();) {
    size_t end = first + 1;
    while (end < fetches.size() && end < first + static_cast<size_t>(count) &&
           fetches[end].before <= needs[fetches[first].need].use) {
      ++end;
    }
    for (size_t f = first; f < end; ++f) fetches[f].before = fetches[end - 1].before;
    first = end;
  }
}

int64_t BytesOfUsesInARow(const std::vector<Need>& needs, int count) {
  int64_t most = 0;
  for (size_t first = 0; first < needs.size();) {
    std::map<int, int64_t> sets;  // of these uses
    size_t end = first;
    for (int uses = 0; end < needs.size(); ++end) {
      if (end > first && needs[end].use != needs[end - 1].use && ++uses == count) break;
      sets[needs[end].set] = needs[end].bytes;
    }
    int64_t bytes = 0;
    for (const auto& [set, of_set] : sets) bytes += of_set;
    most = std::max(most, bytes);
    const int use = needs[first].use;
    while (first < needs.size() && needs[first].use == use) ++first;
  }
  return most;
}

}  // namespace strata::program
