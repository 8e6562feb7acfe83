#include "client/terminal/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/units.h"

namespace strata::client {

std::string FormatRate(double tokens_per_second) {
  if (tokens_per_second < 1000) return absl::StrFormat("%.0f tok/s", tokens_per_second);
  if (tokens_per_second < 1e6) return absl::StrFormat("%.1fk tok/s", tokens_per_second / 1e3);
  return absl::StrFormat("%.2fM tok/s", tokens_per_second / 1e6);
}

std::string FormatLoss(double loss) {
  return std::isfinite(loss) ? absl::StrFormat("%.4f", loss) : "not finite";
}

std::string FormatNorm(double norm) {
  return std::isfinite(norm) ? absl::StrFormat("%.2f", norm) : "not finite";
}

void Progress::Add(const strata::v1::StepRecord& record) {
  constexpr double kWeight = 0.1;  // a mean over about 2 / 0.1 - 1 steps
  ++seen_;
  if (seen_ <= 2) {
    mean_seconds_ = record.seconds();
  } else {
    mean_seconds_ += kWeight * (record.seconds() - mean_seconds_);
  }
  last_ = record;
}

std::string Progress::Line() const {
  std::string line = absl::StrFormat("step %d/%d  loss %s  norm %s", last_.step(), steps_,
                                     FormatLoss(last_.loss()), FormatNorm(last_.grad_norm()));
  if (mean_seconds_ > 0) {
    absl::StrAppend(&line, "  ", FormatRate(static_cast<double>(last_.tokens()) / mean_seconds_));
  }
  if (last_.has_validation_loss()) {
    absl::StrAppend(&line, "  validation loss ", FormatLoss(last_.validation_loss()));
  }
  const auto left = static_cast<double>(steps_ - last_.step());
  if (left > 0 && mean_seconds_ > 0) {
    absl::StrAppend(&line, "  ETA ", common::FormatSeconds(std::ceil(left * mean_seconds_)));
  }
  return line;
}

bool Progress::DueAt(double now) {
  constexpr int64_t kLines = 20;
  constexpr double kLongestSilence = 10;
  const int64_t step = last_.step();
  if (seen_ == 0 || step == told_) return false;
  const int64_t interval = std::max<int64_t>(1, steps_ / kLines);
  const bool due = !told_at_.has_value() || step >= steps_ || step % interval == 0 ||
                   now - *told_at_ >= kLongestSilence;
  if (!due) return false;
  told_ = step;
  told_at_ = now;
  return true;
}

}  // namespace strata::client
