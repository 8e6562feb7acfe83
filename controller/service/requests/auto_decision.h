// What `auto` in a job stands for that came without the command line, which decides before it
// submits.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "controller/logic/core.h"
#include "controller/logic/snapshot.h"
#include "planner/plan_family.h"
#include "planner/search/rank_room.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// What a decision goes by beside the job.
struct DecisionFacts {
  planner::LearnedFamilies learned = {};
  planner::AskRoom room = nullptr;
};
// Of all nodes that the controller knows, which it borrows by the snapshot.
planner::AskRoom RoomOf(std::shared_ptr<const Snapshot> snapshot);

// The fastest layout of those that are legal and that any node has room for, by usual rates and
// what was learned: the controller has no machine's profile. `job`: its spec as CheckSpec leaves
// it, with autos. Takes seconds. FailedPrecondition (INFEASIBLE): no layout is legal, or there is
// room for none; InvalidArgument (INVALID_JOB): the model's sizes are not there; ResourceExhausted
// (DECISION_TOO_LARGE): programs that a controller does not compose for others, or more time than
// `gives_up` had. They say what to do.
absl::StatusOr<DecidedSpec> DecideAutos(const v1::Job& job, const DecisionFacts& facts,
                                        const std::function<bool()>& gives_up);

// Decides for calls that come at any time, on the threads of readers, of which others are left: one
// at a time, and for 20 s at most.
class AutoDecider {
 public:
  explicit AutoDecider(const common::Clock* clock) : clock_(clock) {}  // borrowed

  // Whether the request leaves something to be decided. A repeated one does not: it gets the job
  // that it made. `owner`: who calls.
  static bool IsDue(const Core& core, const std::string& owner,
                    const v1::CreateJobRequest& request);
  // DecideAutos' errors; ResourceExhausted (DECISION_BUSY): another one is being made.
  absl::StatusOr<DecidedSpec> Decide(const v1::Job& job, const DecisionFacts& facts,
                                     const std::function<bool()>& cancelled);

 private:
  const common::Clock* const clock_;
  std::mutex deciding_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_AUTO_DECISION_H_
