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
  auto operator<=>(const SavedValues&) const = default;  // NOLINT(modernize-use-nullptr): clang 14
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

double SumOf(const ByValue<double>& of, SavedValues values);

// From all values to none: the sets of which no other takes as little time with as few bytes,
// `seconds` being of making a value again. The backward reads every value, so that dropping one
// costs the making of it alone, once, whatever else was dropped: both add up. What is cheapest per
// byte is dropped first; between such sets are those that fill the gaps.
std::vector<SavedValues> LadderOf(const ByValue<double>& bytes, const ByValue<double>& seconds);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_SAVED_VALUES_H_
