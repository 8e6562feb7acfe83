// How numbers are written in the files of users. Stricter than YAML: one way to read each text.
#ifndef STRATA_SPEC_SCALARS_H_
#define STRATA_SPEC_SCALARS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace strata::spec {

// All errors are InvalidArgument; the message says why the text is refused, without repeating it.

// `128`, `-3`, `16k`, `1.5M` (decimal k M G T), `16Ki` (1024s: Ki Mi Gi Ti). The value must be a
// whole number.
absl::StatusOr<int64_t> ParseCount(absl::string_view text);

// Bytes: `4096`, `64KiB`, `1.5GiB` (KiB MiB GiB TiB PiB), `10GB` (kB MB GB TB PB, powers of 1000).
absl::StatusOr<int64_t> ParseSize(absl::string_view text);

// `1`, `0.5`, `1e-3`; never NaN or infinite.
absl::StatusOr<double> ParseNumber(absl::string_view text);

// `0-11`, or `3` for `3-3`: first and last, both included, last not before first.
absl::StatusOr<std::pair<int64_t, int64_t>> ParseRange(absl::string_view text);

// `30s`, `90m`, `1.5h`, `2d`, `1h30m`: numbers with units (d h m s ms), the largest unit first;
// `0` needs none. Never negative, at most 100 years.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);
// As ParseDuration reads it: `1h30m`.
std::string DurationText(absl::Duration duration);

// `true` or `false`.
absl::StatusOr<bool> ParseFlag(absl::string_view text);

// The shortest decimal text that reads back as the same double.
std::string ShortestNumber(double value);

}  // namespace strata::spec

#endif  // STRATA_SPEC_SCALARS_H_
