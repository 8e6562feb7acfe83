// The policy file of `strata apply`: projects, queues, and how the scheduler decides.
//
//   projects:                       # a job names one as `project`
//     - {name: nlp, description: language models, quota: {h100: 64, "*": 128}}
//   queues:                         # a job names one as `resources.queue`
//     - {name: urgent, priority: 10, max_devices: 16}
//   scheduling:
//     min_run_seconds: 30           # a job is not preempted sooner after its ranks began
//     shrink_after_seconds: 60      # how long a failed job waits for all of its data ranks
//     unknown_run_seconds: 86400    # what jobs of unknown duration count as in reservations
//     preemption_gap: 0             # jobs of at most so much lower priority are not preempted
//     defragment: false             # whether jobs may be moved so that a larger one fits
//     ttl_after_finished_seconds: 86400   # jobs are deleted so long after their end (default: never)
//
// The values of `scheduling` are its defaults. The file is all there is: a project or a queue that
// is not in it is removed, except "default", which always exists. A quota counts devices that the
// project's jobs hold together, of one kind, or of all kinds ("*"); a queue's priority is added to
// that of its jobs, and max_devices (0: no limit) bounds what its running jobs hold together.
#ifndef STRATA_SPEC_POLICY_FILE_H_
#define STRATA_SPEC_POLICY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/strata/v1/policy.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

struct PolicyFile {
  v1::Policy policy;  // as written: without defaults (see policy_defaults.h)
  PositionMap positions;
};

// Reads and checks all that needs no cluster. Problems are added to `problems`; what could be read
// despite them is returned. Time and memory are bounded by the 1 MiB that a file may have.
PolicyFile ReadPolicy(absl::string_view text, Problems& problems);

// The policy as a file that ReadPolicy reads back to an equal one.
std::string WritePolicy(const v1::Policy& policy);

}  // namespace strata::spec

#endif  // STRATA_SPEC_POLICY_FILE_H_
