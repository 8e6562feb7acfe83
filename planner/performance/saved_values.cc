#include "planner/performance/saved_values.h"

#include <algorithm>
#include <tuple>

namespace strata::planner {

const char* NameOf(SavedValue value) {
  static constexpr ByValue<const char*> kNames = {"norms",    "qkv", "attention",
                                                  "residual", "up",  "activation"};
  return kNames[static_cast<size_t>(value)];
}

double SumOf(const ByValue<double>& of, SavedValues values) {
  double sum = 0;
  for (int v = 0; v < kSavedValues; ++v) {
    if (values.has(static_cast<SavedValue>(v))) sum += of[v];
  }
  return sum;
}

std::vector<SavedValues> LadderOf(const ByValue<double>& bytes, const ByValue<double>& seconds) {
  std::vector<SavedValues> sets;
  for (int bits = 0; bits <= kAllValues.bits; ++bits) sets.push_back({static_cast<uint8_t>(bits)});
  // What is saved need not be made again; of equal time the fewest bytes first.
  std::sort(sets.begin(), sets.end(), [&](SavedValues a, SavedValues b) {
    return std::tuple(-SumOf(seconds, a), SumOf(bytes, a), a) <
           std::tuple(-SumOf(seconds, b), SumOf(bytes, b), b);
  });
  std::vector<SavedValues> ladder;
  for (const SavedValues set : sets) {
    if (ladder.empty() || SumOf(bytes, set) < SumOf(bytes, ladder.back())) ladder.push_back(set);
  }
  return ladder;
}

}  // namespace strata::planner
