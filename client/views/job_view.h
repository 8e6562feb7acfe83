// Jobs as people and programs see them. Names are plain here (`faulty`), the API's are
// `jobs/faulty`.
#ifndef STRATA_CLIENT_VIEWS_JOB_VIEW_H_
#define STRATA_CLIENT_VIEWS_JOB_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/views/structured.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::client {

// `jobs/faulty` and `nodes/n0` without what stands before the slash.
std::string PlainName(absl::string_view name);

bool IsTerminal(v1::Job::State state);

// time, type, epoch, attempt, step, cause, reason, lost_steps, actor.
Json ToJson(const v1::JobEvent& event);
// name, state, epoch, attempt, step, target_step, checkpoint_step (0: none), checkpoint, directory,
// reason, ranks, times, restarts, and the last events.
Json ToJson(const v1::Job& job);
// Spelt as in a job file.
Json ToJson(const v1::JobSpec& job);
// Both.
Json ToJsonWithSpec(const v1::Job& job);

// NAME STATE STEP CHECKPOINT ATTEMPT RANKS AGE REASON, and LABELS where they are asked for.
// `wall_seconds`: now, since 1970.
std::string JobTable(const std::vector<v1::Job>& jobs, double wall_seconds, bool labels = false);

// Everything, for people, with the last step, where it is known, and the last events, oldest first.
std::string DescribeJob(const v1::Job& job, const std::optional<v1::StepRecord>& last_step,
                        const std::vector<v1::JobEvent>& events, double wall_seconds);
// AGE TYPE ATTEMPT STEP ACTOR WHAT.
std::string EventTable(const std::vector<v1::JobEvent>& events, double wall_seconds);

// "QUEUED", "QUEUED,SUSPENDED".
std::string JobStateText(const v1::Job& job);

// "n0 (rank 0), n1 (ranks 1-2)"; empty when it runs nowhere.
std::string PlacementText(const v1::Job& job);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_JOB_VIEW_H_
