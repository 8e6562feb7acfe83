// Which values of a block Strata's forward keeps for its backward, by kinds that every decoder has
// (model/passes/recompute.h has the values themselves). The input of a block is kept besides.
#ifndef STRATA_PLANNER_PERFORMANCE_SAVED_VALUES_H_
#define STRATA_PLANNER_PERFORMANCE_SAVED_VALUES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

namespace strata::planner {

// In the order in which a block makes them. kNorms: outputs of both; kAttention: with its row sums;
// kUp: the products that the activation reads.
enum class SavedValue : uint8_t { kNorms, kQkv, kAttention, kResidual, kUp, kActivation };
inline constexpr int kSavedValues = 6;
// "norms", "qkv", "attention", "residual", "up", "activation".
const char* NameOf(SavedValue value);

// A set of them.
struct SavedValues {
  uint8_t bits = 0;

  constexpr bool has(SavedValue value) const { return (bits >> static_cast<int>(value) & 1) != 0; }
  constexpr SavedValues with(SavedValue value) const {
    return {static_cast<uint8_t>(bits | 1 << static_cast<int>(value))};
  }
  constexpr SavedValues without(SavedValue value) const {
    return {static_cast<uint8_t>(bits & ~(1 << static_cast<int>(value)))};
  }
  friend auto operator<=>(const SavedValues&, const SavedValues&) = default;
};

inline constexpr SavedValues kNoValues = {};
inline constexpr SavedValues kAllValues = {(1 << kSavedValues) - 1};
// What recompute none keeps: all that is not made by elementwise work from what is kept.
inline constexpr SavedValues kUsualValues =
    kAllValues.without(SavedValue::kNorms).without(SavedValue::kActivation);
// What selective keeps.
inline constexpr SavedValues kValuesWithoutAttention = kUsualValues.without(SavedValue::kAttention);

template <typename T>
using ByValue = std::array<T, kSavedValues>;

// From all values to none, one fewer each: the cheapest to make again per byte is dropped first.
// The backward reads every one of them, so that dropping one costs the making of it alone, once,
// whatever else was dropped: seconds and bytes add up, and no set has fewer seconds at the bytes of
// one of these (the greedy order of fractional knapsacks: Dantzig, Operations Research 5, 1957).
std::vector<SavedValues> LadderOf(const ByValue<double>& bytes, const ByValue<double>& seconds);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_SAVED_VALUES_H_
