#include "protocol/fragments.h"

#include <algorithm>
#include <iterator>

namespace strata::protocol {
namespace {

WholeCheckpoint Whole(int64_t step, const std::map<int, std::string>& fragments) {
  WholeCheckpoint checkpoint{.step = step, .fragments = {}};
  for (const auto& [rank, fragment] : fragments) checkpoint.fragments.push_back(fragment);
  return checkpoint;
}

}  // namespace

std::optional<WholeCheckpoint> FragmentBook::Add(
    int64_t step, const google::protobuf::Map<int32_t, std::string>& fragments, int ranks) {
  std::map<int, std::string>& known = by_step_[step];
  for (const auto& [rank, fragment] : fragments) {
    if (rank >= 0 && rank < ranks) known[rank] = fragment;
  }
  std::optional<WholeCheckpoint> whole;
  if (static_cast<int>(known.size()) == ranks) whole = Whole(step, known);
  while (by_step_.size() > kMostSteps) by_step_.erase(by_step_.begin());
  return whole;
}

std::optional<WholeCheckpoint> FragmentBook::Newest(int ranks) const {
  for (auto found = by_step_.rbegin(); found != by_step_.rend(); ++found) {
    if (static_cast<int>(found->second.size()) == ranks) return Whole(found->first, found->second);
  }
  return std::nullopt;
}

bool FragmentBook::Has(int64_t step, const std::vector<int>& ranks) const {
  const auto found = by_step_.find(step);
  return found != by_step_.end() && std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
           return found->second.contains(rank);
         });
}

bool FragmentBook::HasAllOf(const std::vector<int>& ranks) const {
  return std::all_of(by_step_.begin(), by_step_.end(),
                     [&](const auto& entry) { return Has(entry.first, ranks); });
}

int FragmentBook::CountAfter(int64_t step) const {
  return static_cast<int>(std::distance(by_step_.upper_bound(step), by_step_.end()));
}

void FragmentBook::Forget(int64_t step) {
  by_step_.erase(by_step_.begin(), by_step_.upper_bound(step));
}

}  // namespace strata::protocol
