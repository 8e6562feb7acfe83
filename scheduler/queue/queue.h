// Who runs when: order, quotas, reservation and backfill, preemption, replacement, spares. Pure: a
// view of the moment gives decisions; the caller makes them durable, then acts on them. The same
// view gives the same decisions.
#ifndef STRATA_SCHEDULER_QUEUE_QUEUE_H_
#define STRATA_SCHEDULER_QUEUE_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/placement/placement.h"
#include "topology/cluster.h"

namespace strata::scheduler {

// What users declare with `strata apply`.
struct ProjectPolicy {
  std::map<std::string, int64_t> device_quota;  // kind, or "*" for all kinds together -> devices
};
struct QueuePolicy {
  int64_t priority = 0;      // added to its jobs' own
  int64_t max_devices = 0;   // of its running jobs together; 0: no limit
  bool preemptible = false;  // its jobs may borrow the buffer
};
// The level whose one group is everything.
inline constexpr char kWholeCluster[] = "cluster";
// Nodes of every group of a level, of each kind of device there, that no start takes: they are for
// ranks that lost theirs. The larger of both numbers counts.
struct BufferPolicy {
  std::string level;  // of the topology, or kWholeCluster
  int64_t nodes = 0;
  double fraction = 0;  // of the group's nodes, rounded up
};
struct Policy {
  std::map<std::string, ProjectPolicy> projects;  // "default" exists without being declared
  std::map<std::string, QueuePolicy> queues;      // likewise
  double min_run_seconds = 30;       // a job is not preempted sooner after its ranks began
  double shrink_after_seconds = 60;  // a recovering job waits so long for its full data degree
  // Jobs without a known duration count as this long when a reservation or a backfill is reckoned.
  double unknown_run_seconds = 24 * 3600;
  // A started job of at most this much lower effective priority is never preempted: 0 means that
  // any strictly lower one may be.
  int64_t preemption_gap = 0;
  bool defragment = false;  // opt-in
  std::optional<BufferPolicy> buffer;
};

enum class JobPhase {
  kQueued,      // never started, or preempted and its ranks gone
  kRunning,     // its ranks hold devices (starting ones too)
  kStopping,    // told to stop (preempted, cancelled): holds devices until its ranks are gone
  kRecovering,  // its ranks failed; to be started again, its other devices kept for it
};

struct JobView {
  std::string name;
  const Shape* shape = nullptr;  // borrowed
  JobPhase phase = JobPhase::kQueued;
  int64_t priority = 0;
  std::string project = "default";
  std::string queue = "default";
  bool preemptible = false;  // it may borrow the buffer, whatever its queue says
  int64_t order = 0;         // of submission; a preempted job keeps its own
  double submitted_at = 0;
  double started_at = 0;     // its present epoch's beginning
  double checkpoint_at = 0;  // of the newest checkpoint, or started_at: work since then is lost
  double failed_at = 0;      // kRecovering
  // The job that this one was preempted for (see Preemption::by), until it starts again: while that
  // one waits too, it goes first.
  std::string preempted_by;
  std::optional<double> seconds_left;  // by its steps' pace; absent: not known
  // kRunning, kStopping: what it holds. kRecovering: where its ranks were.
  std::optional<Placement> held;
};

struct View {
  // A node that is not healthy in it takes no new ranks, whatever the reason: silent, drained,
  // quarantined. Its free devices are not looked at: see occupancy.
  const topology::Cluster* cluster = nullptr;
  Occupancy occupancy;  // devices that no job holds or keeps, on nodes that may take new ranks
  std::vector<JobView> jobs;
  Policy policy;
  double now = 0;
};

struct Start {
  std::string job;
  Placement placement;  // its degrees may be fewer in data than asked for: see data
  int64_t data = 0;     // data · replicate of this start
  std::string why;  // "first in the queue", "backfilled before X: ends before …", "replaces …"
};
struct Preemption {
  std::string victim;
  std::string by;
  std::string why;  // for people: priorities and work lost
};
// One of the things that keep a job from starting.
struct Blocker {
  enum class Code {
    kQuota,        // of a project
    kQueueLimit,   // of a queue
    kDevices,      // too few are free; of a job that has some of them, or of none
    kTopology,     // enough are free, but not together
    kBuffer,       // what is free is held back; of a level
    kReservation,  // it would be in the way of a job
  };
  Code code = Code::kDevices;
  std::string subject;  // name of the project, queue, job or level; may be empty
  std::string text;
  bool by_itself = false;  // of kQuota and kQueueLimit: the job alone is more than it
};
struct Waiting {
  std::string reason;
  std::string starts_when;
  bool infeasible = false;  // nothing that this cluster could become by itself starts it
  std::vector<Blocker> blockers = {};
  std::optional<double> starts_at = {};  // on the view's clock; absent: not known
  int64_t position = 0;                  // 1-based, among all jobs that go on waiting
};
struct Decisions {
  std::vector<Start> starts;               // in order; all fit together
  std::vector<Preemption> preemptions;     // victims stop at a checkpoint, then are queued again
  std::map<std::string, Waiting> waiting;  // every queued or recovering job that does not start
};

Decisions Decide(const View& view);

// Where the buffer is now, by indices of nodes.
struct BufferNodes {
  std::vector<int> free;  // held back
  std::vector<int> lent;  // running preemptible jobs have them
  int64_t missing = 0;    // taken by ranks that lost theirs, unhealthy, or in use from before
};
BufferNodes BufferOf(const View& view);
// What of the room jobs may take that may not take the buffer.
Occupancy WithoutBuffer(const topology::Cluster& cluster, const BufferPolicy& policy,
                        const Occupancy& room);

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_QUEUE_H_
