// How often and how soon a job's ranks are started again.
#ifndef STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_
#define STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_

#include <cstdint>

#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

inline constexpr double kLongestBackOffSeconds = 8;

// The budget is there for jobs that cannot run: what trains and breaks again and again. An end that
// says nothing about the job uses up none of it, and is followed by no back-off (`counts` false):
//   - ranks that are gone when their node is first heard of in this controller's term, or whose
//     node is not heard of in it at all: cluster and all were ended, in good order or by a power
//     cut, and nobody was there to hear why. Each such end takes a start of the controller, so this
//     cannot be a loop of its own making. (Trainers that died by themselves meanwhile have agents
//     that live and say so, in time to count.)
//   - ranks that an agent ended because it was itself told to stop or had lost its controller
//     (EpochEnded with the cause node_lost).
//   - ranks that an agent ended because a controller wished it (the cause user): one that has not
//     wished it itself had its state restored from a backup of before.
//   - ranks that an agent ended because their storage stalled for too long, which took minutes.
//   - ranks that a node could not start, for want of room on a disk or of a file, though the job
//     has trained before, during the first minute of it. Here there is a back-off.
// Everything else under a living controller counts, a node's silence too: a job may well be what
// takes its nodes down.

// Epochs in a row that ended without a checkpoint of their own, the present one included if it
// counts.
int64_t WithoutProgressAfter(const v1::JobRecord& job, bool counts);

// Whether a job with that many may be started again (restart.max_without_progress; absent: 3).
bool MayRestart(const v1::JobRecord& job, int64_t without_progress);

// Seconds before the next start: none for the first one, then `first`, doubled each time.
double BackOff(int64_t without_progress, double first);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_
