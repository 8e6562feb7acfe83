#include "memory/ssd/stripes.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"

namespace strata::memory {

absl::StatusOr<Stripes> Stripes::Create(const std::vector<int64_t>& limits, int64_t stripe_bytes,
                                        int64_t bytes) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  Stripes stripes;
  stripes.stripe_bytes_ = stripe_bytes;
  stripes.file_bytes_.resize(limits.size());
  std::vector<int64_t> most;  // stripes of each file
  for (const int64_t limit : limits) {
    most.push_back(limit == 0 ? kNoLimit : limit / stripe_bytes);
  }
  const int64_t wanted = (bytes + stripe_bytes - 1) / stripe_bytes;
  int64_t first = 0, base = 0;
  for (const int64_t level : std::set<int64_t>(most.begin(), most.end())) {
    if (level == 0 || first >= wanted) continue;
    Phase phase{.first = first, .base = base};
    for (size_t file = 0; file < most.size(); ++file) {
      if (most[file] >= level) phase.files.push_back(static_cast<int>(file));
    }
    const auto files = static_cast<int64_t>(phase.files.size());
    const int64_t rows = std::min(level - base, (wanted - first + files - 1) / files);
    first += rows * files;
    base = level;
    stripes.phases_.push_back(std::move(phase));
  }
  if (first < wanted) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes of the SSD tier do not fit into the ", first * stripe_bytes,
                     " that the paths' sizes allow, in whole stripes of ", stripe_bytes,
                     " — allow more, or add a path"));
  }
  for (int64_t stripe = 0; stripe < wanted; ++stripe) {
    const Place place = stripes.Find(stripe * stripe_bytes);
    int64_t& end = stripes.file_bytes_[place.file];
    end = std::max(end, place.offset + std::min(stripe_bytes, bytes - stripe * stripe_bytes));
  }
  return stripes;
}

Stripes::Place Stripes::Find(int64_t offset) const {
  const int64_t stripe = offset / stripe_bytes_;
  const auto after =
      std::upper_bound(phases_.begin(), phases_.end(), stripe,
                       [](int64_t at, const Phase& phase) { return at < phase.first; });
  const Phase& phase = *std::prev(after);
  const int64_t local = stripe - phase.first;
  const auto files = static_cast<int64_t>(phase.files.size());
  const int64_t inside = offset % stripe_bytes_;
  return {.file = phase.files[local % files],
          .offset = (phase.base + local / files) * stripe_bytes_ + inside,
          .bytes = stripe_bytes_ - inside};
}

}  // namespace strata::memory
