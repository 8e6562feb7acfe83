#include "client/prepare_teller.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/units.h"

namespace strata::client {

void PrepareTeller::Tell(const data::PrepareProgress& progress) {
  first_ = std::min(first_, progress.done_bytes);
  const double now = clock_.Now();
  if (now - told_ < (terminal_.options().animate ? 0.1 : 10)) return;
  told_ = now;
  const double speed = static_cast<double>(progress.done_bytes - first_) / (now - begun_);
  std::string line =
      absl::StrFormat("%3.0f %%  %s  %s tokens",
                      100.0 * static_cast<double>(progress.done_bytes) /
                          static_cast<double>(std::max<int64_t>(1, progress.total_bytes)),
                      std::filesystem::path(progress.path).filename().string(),
                      common::FormatDecimal(static_cast<double>(progress.tokens), ""));
  if (speed > 0) {
    const auto left = static_cast<double>(progress.total_bytes - progress.done_bytes) / speed;
    absl::StrAppend(&line, absl::StrFormat("  %.1f MB/s  ETA ", speed / 1e6),
                    common::FormatSeconds(std::max(1.0, left)));
  }
  if (terminal_.options().animate) {
    terminal_.Transient(line);
  } else {
    terminal_.Say(line);
  }
}

}  // namespace strata::client
