// Steps of a layout on this machine, as they are and with their communication left out, in turn.
#ifndef STRATA_TESTS_BENCH_LAYOUT_RUNNER_H_
#define STRATA_TESTS_BENCH_LAYOUT_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/loopback.h"
#include "collectives/process_endpoint.h"
#include "program/readers/timeline.h"
#include "tests/bench/bench_model.h"
#include "worker/engine/step_metrics.h"

namespace strata::bench {

struct RunOptions {
  bool waits = false;                     // print the longest waits of rank 0
  bool pin = true;                        // rank r to the r-th processor, where each has one
  int blocks = 3;                         // of steps as they are, and as many without communication
  int steps = 4;                          // measured, of a block
  collectives::ProcessOptions transport;  // of processes
  // On: ranks are threads on loopback, slowed down; else processes.
  collectives::LinkThrottle throttle;
};

// Of the slowest rank, seconds of the median step; what is not of a step, of rank 0.
struct Measured {
  double step = 0, stubbed = 0;  // stubbed: without communication
  double compute = 0;            // busy, without communication
  double processor = 0;          // seconds of all the rank's threads that communication adds
  double recorded = 0;           // compute stood and waited
  double communication = 0;      // by the rates, of all that rank 0 communicates
  double predicted = 0;          // the timeline's step
  double predicted_exposed = 0;  // and what of it compute waits
  worker::StepMetrics::ByPurpose exposed{}, background{};
  program::Rates rates;  // measured in the same run; the link's are the throttle's if on

  // What communication costs a step in all, so also the processor time of copying and adding.
  double exposed_seconds() const { return step - stubbed; }
};

// InvalidArgument: a layout that cannot be composed; else what a rank failed with.
absl::StatusOr<Measured> RunLayout(const TrainingSpec& spec, const RunOptions& options);

// Step of the timeline with these rates.
absl::StatusOr<double> PredictedStep(const TrainingSpec& spec, const program::Rates& rates);

// A job's plan with what follows from its groups: leaves as jobs have them by default.
TrainingSpec SpecOf(const model::ModelSpec& model, const program::GroupSizes& groups,
                    program::ShardLevel level, int64_t sequence, int64_t micro_batch,
                    int64_t global_batch);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_LAYOUT_RUNNER_H_
