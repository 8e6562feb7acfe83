// The cluster of most transitions' tests.
#ifndef STRATA_CONTROLLER_LOGIC_TWO_NODES_H_
#define STRATA_CONTROLLER_LOGIC_TWO_NODES_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/logic/testing.h"

namespace strata::controller::testing {

constexpr auto kSucceeded = v1::Finished::SUCCEEDED;
constexpr auto kFailed = v1::Finished::FAILED;
constexpr auto kInterrupted = v1::Finished::INTERRUPTED;

// Two nodes of one device each, for a job on both.
class TwoNodes : public ::testing::Test {
 protected:
  TwoNodes() {
    h.Join("n0");
    h.Join("n1");
  }
  // Both nodes start the job's present epoch.
  void Start(const std::string& job) {
    const int64_t epoch = h.Job(job).epoch();
    h.SayPrepared("n0", job, epoch, {0});
    h.SayPrepared("n1", job, epoch, {1});
    h.SayRunning("n0", job, epoch);
    h.SayRunning("n1", job, epoch);
    h.Take("n0");
    h.Take("n1");
  }
  Harness h;
};

// The same, with jobs that are stopped, for a wish or for their time.
class StoppedJobs : public TwoNodes {
 protected:
  // Both ranks of job `a` end after `step`, with a checkpoint of it.
  void StopAt(int64_t step) {
    const int64_t epoch = h.Job("a").epoch();
    h.SayStopping("n0", "a", epoch, step);
    h.SayStopping("n1", "a", epoch, step);
    h.SayStep("n0", "a", epoch, step);
    h.SayCommit("n0", "a", epoch, step, absl::StrCat("m", step));
    h.SayEnded("n0", "a", epoch, kInterrupted);
    h.SayEnded("n1", "a", epoch, kInterrupted);
  }
  static v1::CreateJobRequest Limited(const std::string& name, int ranks, int64_t seconds) {
    v1::CreateJobRequest request = Harness::Request(name, ranks);
    request.mutable_job()->mutable_spec()->mutable_time_limit()->set_seconds(seconds);
    return request;
  }
};

}  // namespace strata::controller::testing

#endif  // STRATA_CONTROLLER_LOGIC_TWO_NODES_H_
