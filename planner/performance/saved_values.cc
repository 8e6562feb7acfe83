#include "planner/performance/saved_values.h"

#include <algorithm>
#include <numeric>

namespace strata::planner {

const char* NameOf(SavedValue value) {
  static constexpr ByValue<const char*> kNames = {"norms",    "qkv", "attention",
                                                  "residual", "up",  "activation"};
  return kNames[static_cast<size_t>(value)];
}

std::vector<SavedValues> LadderOf(const ByValue<double>& bytes, const ByValue<double>& seconds) {
  ByValue<size_t> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return seconds[a] * bytes[b] < seconds[b] * bytes[a];
  });
  std::vector<SavedValues> ladder = {kAllValues};
  for (const size_t dropped : order) {
    ladder.push_back(ladder.back().without(static_cast<SavedValue>(dropped)));
  }
  return ladder;
}

}  // namespace strata::planner
