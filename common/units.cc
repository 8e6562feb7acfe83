#include "common/units.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::common {

std::string FormatBytes(double bytes) {
  static constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024) return absl::StrFormat("%.0f B", bytes);
  int unit = 0;
  for (bytes /= 1024; std::abs(bytes) >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return absl::StrFormat("%.2f %s", bytes, kNames[unit]);
}

std::string FormatDecimal(double value, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  int prefix = 0;
  for (; std::abs(value) >= 1000 && prefix < 6; ++prefix) value /= 1000;
  const std::string number =
      prefix == 0 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.2f", value);
  const std::string suffix = absl::StrCat(kPrefixes[prefix], unit);
  return suffix.empty() ? number : absl::StrCat(number, " ", suffix);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  return absl::StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

std::string FormatShortSeconds(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", seconds * 1e3)
                     : absl::StrFormat("%.3g s", seconds);
}

}  // namespace strata::common
