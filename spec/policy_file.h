// The policy file of `strata apply`: projects, queues, how the scheduler decides, and what may take
// how long.
//
//   projects:                       # a job names one as `project`
//     - {name: nlp, description: language models, quota: {h100: 64, "*": 128}, roots: [/data/nlp]}
//     - {name: labs, max_queued_jobs: 50, max_priority: 0, max_spec_bytes: 64k, max_streams: 20,
//        max_calls_per_second: 10}
//   queues:                         # a job names one as `resources.queue`
//     - {name: urgent, priority: 10, max_devices: 16}
//     - {name: batch, preemptible: true}   # its jobs may borrow the buffer, as jobs that say so
//     may
//   scheduling:
//     min_run_seconds: 30           # a job is not preempted sooner after its ranks began
//     shrink_after_seconds: 60      # how long a failed job waits for all of its data ranks
//     unknown_run_seconds: 86400    # what jobs of unknown duration count as in reservations
//     preemption_gap: 0             # jobs of at most so much lower priority are not preempted
//     defragment: false             # whether jobs may be moved so that a larger one fits
//     ttl_after_finished_seconds: 86400   # jobs are deleted then after their end; default: never
//     buffer: {level: zone, nodes: 2%}   # held back from starts in every zone; default: none
//     max_nodes: 20000              # records of nodes, also of lost ones: one more is refused
//   roles:                          # who may do what, where users are known (docs/security.md)
//     - {role: submitter, members: [users/ann, groups/nlp], project: nlp}
//     - {role: admin, members: [users/root]}
//   timing:
//     heartbeat_seconds: 1          # agents' signs of life
//     node_lost_seconds: 4          # a silent node is LOST; at least two heartbeats
//     lease_seconds: 30             # its ranks are given up; more than node_lost_seconds
//     orphan_seconds: 0             # agents without a controller end their ranks; 0: never
//     prepare_seconds: 60           # ranks are prepared, besides storage_seconds
//     refused_seconds: 60           # what a node lacks may come back
//     stop_seconds: 5               # agents confirm a stop
//     cancel_seconds: 60            # for a cancelled job's last checkpoint
//     suspect_seconds: 3            # a rank that does not move is told
//     hang_seconds: 60              # and ended; at least suspect_seconds
//     phase_seconds: 60             # of connecting, loading, compiling, besides bytes and ranks
//     storage_seconds: 600          # without a chunk read or written; at least hang_seconds
//     storage_bytes_per_second: 1e8 # what storage is believed to do at least
//     forget_node_seconds: 604800   # silent nodes that hold nothing are forgotten; 0: never
//
// The values of `scheduling` and `timing` are their defaults. The file is all there is: a project
// or a queue that is not in it is removed, except "default", which always exists. Jobs of a project
// with roots read and write under these folders alone; a project's max_* are limits of its jobs and
// users, and without one there is none. A quota counts
// devices that the project's jobs hold together, of one kind, or of all kinds ("*"); a queue's
// priority is added to that of its jobs, and max_devices (0: no limit) bounds what its running jobs
// hold together. Roles are viewer, submitter and project-admin, in one project or in all, operator,
// admin and metrics; "*" as a member is everybody who is known. Of every group of the buffer's
// level (or of the whole "cluster") and each kind of device in it so many nodes, or that share of
// them rounded up, are for ranks that lost theirs.
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
