// What happens to jobs, kept apart from their records: table "events", key jobs/NAME/NUMBER.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_EVENTS_H_
#define STRATA_CONTROLLER_LOGIC_JOB_EVENTS_H_

#include <string>
#include <vector>

#include "controller/logic/cluster_state.h"

namespace strata::controller {

// Of one job; older ones go.
inline constexpr size_t kMostEventsKept = 500;

// An event of now, at the job's present epoch, attempt and step. `actor`: empty: nobody known.
v1::JobEvent MakeEvent(const ClusterState& state, const v1::JobRecord& job, const std::string& type,
                       const std::string& reason, const std::string& actor = kControllerActor);

// Adds it to the job's list, durably. Of checkpoints in a row, and of suspicions for the same
// reason, only the last one is kept: they would push out everything else.
void TellEvent(JobEntry& job, const v1::JobEvent& event, Effects& effects);

// The last event of that type is now known to be another one.
void CorrectEvent(JobEntry& job, const v1::JobEvent& event, Effects& effects);

// From the store; false: it cannot be read. One of a job that is not there is left.
bool RestoreEvent(ClusterState& state, const Write& write);

// Removes all of a job's.
void ForgetEvents(const JobEntry& job, Effects& effects);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_EVENTS_H_
