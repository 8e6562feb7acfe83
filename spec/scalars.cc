#include "spec/scalars.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace strata::spec {
namespace {

struct Suffix {
  absl::string_view name;
  int64_t factor;
};

constexpr int64_t kKi = 1024;
constexpr Suffix kCountSuffixes[] = {
    {"", 1},
    {"k", 1'000},
    {"M", 1'000'000},
    {"G", 1'000'000'000},
    {"Ki", kKi},
    {"Mi", kKi* kKi},
    {"T", 1'000'000'000'000},
    {"Gi", kKi* kKi* kKi},
    {"Ti", kKi* kKi* kKi* kKi},
};
constexpr Suffix kSizeSuffixes[] = {
    {"", 1},
    {"B", 1},
    {"KiB", kKi},
    {"MiB", kKi* kKi},
    {"GiB", kKi* kKi* kKi},
    {"TiB", kKi* kKi* kKi* kKi},
    {"PiB", kKi* kKi* kKi* kKi* kKi},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
};

constexpr absl::Duration kLongestDuration = absl::Hours(24 * 36525);

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// digits[.digits]factor, computed without rounding.
absl::StatusOr<int64_t> ParseScaled(absl::string_view text, int64_t (*factor_of)(absl::string_view),
                                    const char* not_one) {
  constexpr __int128 kLimit = std::numeric_limits<int64_t>::max();
  size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++at;
  const size_t begin = at;
  __int128 value = 0;
  __int128 unit = 1;  // what one of the digit read last stands for, as a divisor
  bool too_large = false;
  const auto take = [&](char digit) {
    if (value > kLimit) {
      too_large = true;  // at most 2^63 · 10 is held
    } else {
      value = value * 10 + (digit - '0');
    }
  };
  for (; at < text.size() && IsDigit(text[at]); ++at) take(text[at]);
  if (at == begin) return absl::InvalidArgumentError(not_one);
  if (at - begin > 1 && text[begin] == '0') {
    return absl::InvalidArgumentError("has leading zeros");
  }
  if (at + 1 < text.size() && text[at] == '.' && IsDigit(text[at + 1])) {
    for (++at; at < text.size() && IsDigit(text[at]); ++at) {
      if (unit > kLimit / 10) return absl::InvalidArgumentError("has too many digits");
      take(text[at]);
      unit *= 10;
    }
  }
  const int64_t factor = factor_of(text.substr(at));
  if (factor == 0) return absl::InvalidArgumentError(not_one);
  if (!too_large) {
    value *= factor;  // below 2^67 · 2^50: fits 127 bits
    if (value % unit != 0) return absl::InvalidArgumentError("is not a whole number");
    value /= unit;
  }
  if (too_large || value > kLimit) return absl::InvalidArgumentError("does not fit in 64 bits");
  return static_cast<int64_t>(negative ? -value : value);
}

template <size_t N>
int64_t FactorOf(const Suffix (&suffixes)[N], absl::string_view name) {
  for (const Suffix& suffix : suffixes) {
    if (suffix.name == name) return suffix.factor;
  }
  return 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseCount(absl::string_view text) {
  return ParseScaled(
      text, [](absl::string_view name) { return FactorOf(kCountSuffixes, name); },
      "is not a whole number such as 128 or 16k");
}

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  return ParseScaled(
      text, [](absl::string_view name) { return FactorOf(kSizeSuffixes, name); },
      "is not a size such as 4096 or 64KiB");
}

absl::StatusOr<double> ParseNumber(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == ".nan" || lower == "nan")
    return absl::InvalidArgumentError("is not a finite number");
  for (absl::string_view name : {".inf", "-.inf", "+.inf", "inf", "-inf", "infinity"}) {
    if (lower == name) return absl::InvalidArgumentError("is not a finite number");
  }
  absl::string_view digits = text;
  if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    return absl::InvalidArgumentError("is beyond what 64-bit floating point holds");
  }
  const bool starts_well =
      !digits.empty() && (IsDigit(digits[0]) || digits[0] == '.' || digits[0] == '-');
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size() || !starts_well ||
      !std::isfinite(value) || (text != digits && digits[0] == '-')) {
    return absl::InvalidArgumentError("is not a number such as 0.5 or 1e-3");
  }
  return value;
}

absl::StatusOr<std::pair<int64_t, int64_t>> ParseRange(absl::string_view text) {
  const size_t dash = text.find('-');
  const absl::string_view first_text = text.substr(0, dash);
  const absl::string_view last_text =
      dash == absl::string_view::npos ? first_text : text.substr(dash + 1);
  int64_t first = 0, last = 0;
  const auto digits = [](absl::string_view part) {
    return !part.empty() && part.size() <= 9 &&
           part.find_first_not_of("0123456789") == absl::string_view::npos;
  };
  if (!digits(first_text) || !digits(last_text) || !absl::SimpleAtoi(first_text, &first) ||
      !absl::SimpleAtoi(last_text, &last)) {
    return absl::InvalidArgumentError("is no range");
  }
  if (last < first) return absl::InvalidArgumentError("ends before it begins");
  return std::make_pair(first, last);
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  struct Unit {
    absl::string_view name;
    absl::Duration length;
  };
  const Unit units[] = {{"d", absl::Hours(24)},
                        {"h", absl::Hours(1)},
                        {"m", absl::Minutes(1)},
                        {"s", absl::Seconds(1)},
                        {"ms", absl::Milliseconds(1)}};
  const auto refused = absl::InvalidArgumentError("is no duration such as 30s, 90m, 4h or 1h30m");
  if (text == "0") return absl::ZeroDuration();
  absl::Duration sum;
  size_t unit = 0;
  if (text.empty()) return refused;
  while (!text.empty()) {
    const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0;
    if (digits == 0 || digits > 12 || !absl::SimpleAtod(text.substr(0, digits), &number)) {
      return refused;
    }
    text.remove_prefix(digits);
    const absl::string_view name =
        text.substr(0, std::min(text.find_first_of("0123456789."), text.size()));
    while (unit < std::size(units) && units[unit].name != name) ++unit;
    if (unit == std::size(units)) return refused;
    sum += number * units[unit++].length;
    text.remove_prefix(name.size());
  }
  if (sum > kLongestDuration) return absl::InvalidArgumentError("is longer than 100 years");
  return sum;
}

std::string DurationText(absl::Duration duration) {
  return duration == absl::ZeroDuration() ? "0s" : absl::FormatDuration(duration);
}

absl::StatusOr<bool> ParseFlag(absl::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return absl::InvalidArgumentError("is neither true nor false");
}

std::string ShortestNumber(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace strata::spec
