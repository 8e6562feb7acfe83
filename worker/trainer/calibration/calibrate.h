// Measures this machine: ops inside real steps, and what passes between two ranks.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_CALIBRATE_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_CALIBRATE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::worker {

struct CalibrateOptions {
  int threads_alone = 1;  // of one rank that has the machine
  int threads = 1;        // of each of two
  bool quick = false;     // fewer shapes and repetitions: for tests
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // what comes next
};

// On both ranks of a world of two, which have nothing else to do; about a minute, or a few seconds
// when quick. Rank 0's result has the times of one rank alone, for which the other one waits, and
// of two at once; rank 1's is empty. Host, CPU and build are the caller's to add. Errors: the
// communicator's, and those of engines that cannot be made.
absl::StatusOr<v1::Profile> Calibrate(collectives::Communicator& communicator,
                                      const CalibrateOptions& options);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_CALIBRATE_H_
