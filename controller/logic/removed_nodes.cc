#include "controller/logic/removed_nodes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::controller {

bool RemovedNodes::Restore(const Write& record) {
  return absl::SimpleAtoi(record.value, &removed_[record.key]);
}

void RemovedNodes::Add(const std::string& node, double now, Effects& effects) {
  int64_t& since = removed_[node];
  // Later than what was given after an earlier deletion in the same second.
  since = std::max(static_cast<int64_t>(std::floor(now)), since + 1);
  effects.writes.push_back({kTable, node, absl::StrCat(since)});
}

double RemovedNodes::Since(const std::string& node) const {
  const auto found = removed_.find(node);
  return found == removed_.end() ? 0 : static_cast<double>(found->second);
}

}  // namespace strata::controller
