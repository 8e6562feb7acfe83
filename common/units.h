// Units that appear in many folders, and how people read them.
#ifndef STRATA_COMMON_UNITS_H_
#define STRATA_COMMON_UNITS_H_

#include <cstdint>
#include <string>

namespace strata::common {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// The next multiple of `alignment` (> 0) at or above `value` (>= 0).
constexpr int64_t RoundUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}
constexpr int64_t CeilDivide(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// "1.50 GiB", "640 B": binary units up to PiB.
std::string FormatBytes(double bytes);
// "1.25 TFLOP", "3.10 M": decimal prefixes; `unit` may be empty.
std::string FormatDecimal(double value, const char* unit);
// "4 s", "3 min 20 s", "2 h 5 min", "1.2 ms".
std::string FormatSeconds(double seconds);
// Three digits, of durations that are compared: "43.7 ms", "5.16 s".
std::string FormatShortSeconds(double seconds);

}  // namespace strata::common

#endif  // STRATA_COMMON_UNITS_H_
