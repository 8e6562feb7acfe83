// What `strata wait --for=` waits for.
#ifndef STRATA_CLIENT_WAIT_CONDITION_H_
#define STRATA_CLIENT_WAIT_CONDITION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::client {

enum class Verdict { kOpen, kMet, kImpossible };

class WaitCondition {
 public:
  // `state=STATE` or `step=N` (step N finished). InvalidArgument, naming the text.
  static absl::StatusOr<WaitCondition> Parse(const std::string& text);

  // Impossible: the job has ended otherwise, or will end before that step.
  Verdict Of(const v1::Job& job) const;

 private:
  std::optional<v1::Job::State> state_;
  int64_t step_ = 0;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_WAIT_CONDITION_H_
