// Counts what happens, and sums it up.
#ifndef STRATA_CONTROLLER_SIMULATOR_STATISTICS_H_
#define STRATA_CONTROLLER_SIMULATOR_STATISTICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/simulator/report.h"
#include "controller/simulator/training.h"

namespace strata::simulator {

class Statistics {
 public:
  explicit Statistics(World& world);

  void OnSubmitted(JobRun& job);
  void OnRefused(JobRun& job, const absl::Status& why);
  void OnChanged(JobRun& job, const v1::JobRecord& record);
  void OnTraining(EpochRun& run);
  void OnPause(EpochRun& run, int cause);
  void OnCommitted(EpochRun& run, int64_t step);
  void OnFailure(int cause, bool of_a_job);
  void OnControllerEnd() { ++report_.controller_ends; }
  void OnHeld(int devices);  // more, or fewer

  Report Finish();

 private:
  void CountPlaces(JobTally& tally, const v1::JobRecord& record);
  void Integrate();
  void SumUpJobs();
  void SumUpWaits();

  World& world_;
  Report report_;
  std::map<int64_t, std::vector<double>> waits_;    // by priority
  std::vector<double> node_waits_;                  // of restarts after failures
  double training_seconds_ = 0, held_seconds_ = 0;  // of devices
  double integrated_at_ = 0;
  int64_t training_ = 0, held_ = 0;
  std::vector<double> pauses_;  // seconds by cause, all together
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_STATISTICS_H_
