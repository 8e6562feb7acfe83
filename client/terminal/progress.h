// How a training run tells its progress: lines from step records, and when to print one.
#ifndef STRATA_CLIENT_TERMINAL_PROGRESS_H_
#define STRATA_CLIENT_TERMINAL_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

// "4.1k tok/s"; "312 tok/s"; "2.35M tok/s".
std::string FormatRate(double tokens_per_second);

// A loss with four digits, a norm with two; "not finite" for a value that is not.
std::string FormatLoss(double loss);
std::string FormatNorm(double norm);

// Follows the steps of one run.
class Progress {
 public:
  // `steps`: the job's last step.
  explicit Progress(int64_t steps) : steps_(steps) {}

  void Add(const strata::v1::StepRecord& record);

  // "step 1/600  loss 5.5452  norm 1.23  4.1k tok/s  ETA 2 min 3 s"; the rate and the ETA are of
  // the last steps (exponential mean over about 20), without the first one, which also warms up.
  // The last step has no ETA.
  std::string Line() const;

  // Whether the newest step deserves a line of its own where lines cannot be rewritten: the first,
  // the last, about 20 evenly spaced ones, and any after 10 seconds without a line. `now` in
  // seconds; true at most once a step.
  bool DueAt(double now);

 private:
  int64_t steps_;
  int64_t seen_ = 0;  // steps of this run
  strata::v1::StepRecord last_;
  double mean_seconds_ = 0;
  int64_t told_ = 0;  // the step that had the last line
  std::optional<double> told_at_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_TERMINAL_PROGRESS_H_
