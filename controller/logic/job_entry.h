// One job as the controller holds it: the record, and what is known only while it runs.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_ENTRY_H_
#define STRATA_CONTROLLER_LOGIC_JOB_ENTRY_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/logic/checkpoint_commits.h"
#include "controller/logic/job_record.h"
#include "controller/logic/plan_families.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/records.pb.h"
#include "proto/strata/v1/trainer.pb.h"
#include "protocol/data_files.h"
#include "scheduler/queue/queue.h"

namespace strata::controller {

struct EpochKey {
  std::string job;  // jobs/NAME
  int64_t epoch = 0;
  std::string uid = {};  // of the job: its name may have been another one's. Empty: not known
  auto operator<=>(const EpochKey&) const = default;
};

inline EpochKey ToKey(const v1::JobEpoch& epoch) {
  return {epoch.job(), epoch.epoch(), epoch.uid()};
}
inline v1::JobEpoch ToProto(const EpochKey& key) {
  v1::JobEpoch epoch;
  epoch.set_job(key.job);
  epoch.set_epoch(key.epoch);
  epoch.set_uid(key.uid);
  return epoch;
}

// How far a node is with its part of an epoch.
enum class MemberState { kAsked, kPrepared, kStarted, kRunning, kEnded };

struct Member {
  std::vector<int> ranks;
  std::vector<int> devices;  // of each rank
  MemberState state = MemberState::kAsked;
  // Its agent came back without it then, and may still say how it ended.
  std::optional<double> missed_at;
  bool alive = false;        // a heartbeat told of its ranks in this controller's term
  bool first_heard = false;  // of its node in this controller's term, by what it last registered
  std::optional<int64_t> stopping_at;  // step, in an orderly stop
};

// Why an epoch cannot go on.
struct Failure {
  std::string reason;
  std::string cause;        // see v1::JobEvent
  std::string detail = {};  // see v1::JobEvent
  bool sure = true;         // this is the culprit; otherwise a better word may replace the reason
  bool permanent = false;   // trying again would not help
  bool refused = false;     // by a node, before any rank ran
  bool counts = true;       // towards restart.max_without_progress: see restart_policy.h
  std::string node = {};    // nodes/NAME to blame; empty: none, or it is not known
  bool silence = false;     // nothing else speaks for it: the ranks may be well
  // The checkpoint that its ranks were to begin with could not be read.
  std::optional<v1::CheckpointProblem> checkpoint = {};

  // One that stalls is neither the job's fault nor its node's.
  void BlameStorage() {
    cause = "storage";
    counts = false;
    node.clear();
  }
};

// The current epoch, from its Prepare on. Facts come in from messages; reconciling draws the
// conclusions.
struct EpochRun {
  std::map<std::string, Member> members;  // by node
  std::map<int, v1::Prepared> prepared;   // by rank
  // What it trains on, as the first node that prepared its ranks found it, and that node.
  protocol::DataFiles data_files;
  std::string data_node;
  std::string notice;  // of a plan that a node prepared, with its node: the first
  double begun_at = 0;
  bool start_sent = false;
  std::optional<Failure> failure;       // the first one
  std::optional<double> stop_asked_at;  // for an orderly stop: cancelled or preempted
  std::optional<int64_t> last_step;     // of an orderly stop, for all ranks
  std::map<int, std::string> phases;    // by rank: the instruction it was in lately
  protocol::FragmentBook fragments;

  double checkpoint_at = 0;  // of its newest checkpoint; 0: none of its own
  // Its pace: since `paced_at`, when it had done `pace_step`; the last step at `stepped_at`.
  bool paced = false;
  int64_t pace_step = 0;
  double paced_at = 0;
  double stepped_at = 0;
  planner::StepComparison comparison;  // of its steps with what was predicted
};

// An epoch that was given up for its nodes' silence alone. Until the next one begins it goes on
// where it is as soon as one of its nodes is back and still holds its ranks.
struct GivenUp {
  EpochRun run;
  Failure failure;
  int64_t without_progress = 0;  // as it was before
};

// Ranks of an epoch that the record, which came from a backup, does not know: as their agents tell.
struct Claims {
  EpochKey key;
  int64_t ranks = 0;               // of the whole job
  int64_t steps = 0;               // train.steps, as its ranks were given them; 0: not told
  std::vector<std::string> order;  // RankLayout.order that they were numbered by; empty: not told
  std::map<std::string, Member> members;
  int64_t step = 0;
  // Said of it meanwhile, by session: of each kind the last, of fragments those of the newest steps
  // that a protocol::FragmentBook takes.
  std::map<uint64_t, std::vector<v1::AgentMessage>> words;
};

struct JobEntry {
  v1::JobRecord record;
  std::optional<Claims> claims;
  bool found = false;      // since the restore: all ranks of its epoch
  EpochRun run;            // while STARTING or RUNNING
  scheduler::Shape shape;  // as asked for
  // As of the scheduler's last decision, while it waits; null: none was made.
  std::shared_ptr<const scheduler::Waiting> waiting;

  // While RECOVERING.
  std::optional<GivenUp> given_up;
  double failed_at = 0;
  double next_start_at = 0;          // back-off
  bool culprit_known = false;        // the last event names it
  bool counted = false;              // the last end was counted as one without progress
  std::optional<double> refused_at;  // the first time since its ranks last ran
  int64_t refusals = 0;              // since then
  bool claim_over = false;           // it no longer keeps the devices it had
  bool tried = false;  // it was due and no place was found; again when capacity changes

  bool has_folders = false;  // they were taken for it

  // Whether the record's run_time goes on, and since when (ClusterState::now) it is to be added to.
  bool holds_devices = false;
  double counted_at = 0;
  // Seconds between the record's last count and this controller's start: they count once ranks that
  // trained through them are heard.
  double unheard_seconds = 0;
  double expires_at = 0;         // its place in ClusterState::expiring; 0: none
  int64_t finished_version = 0;  // its place in ClusterState::finished; 0: none

  std::deque<std::shared_ptr<const NumberedEvent>> events;  // see job_events.h

  EpochKey key() const { return {record.name(), record.epoch(), record.uid()}; }
};

inline bool HasEpoch(v1::Job::State state) {
  return state == v1::Job::STARTING || state == v1::Job::RUNNING;
}
inline bool IsTerminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

// resources.ranks; absent: the product of parallel's degrees.
inline int64_t RanksOf(const v1::JobSpec& spec) {
  if (spec.resources().has_ranks()) return spec.resources().ranks();
  const v1::ParallelSpec& parallel = spec.parallel();
  int64_t ranks = 1;
  for (const int64_t degree :
       {parallel.data(), parallel.tensor(), parallel.context(), parallel.pipeline()}) {
    ranks *= std::clamp<int64_t>(degree, 1, 1 << 15);
  }
  return ranks;
}

inline double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}
inline double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

// Whether checkpoints may be on disk that the record, which came from a backup, does not know: it
// is that of then, or it gives up one that was committed in the store's earlier life, and not all
// of those before it are known.
inline bool MayHaveUnknownCheckpoints(const v1::JobRecord& job) {
  return job.restored() ||
         std::any_of(job.damaged_checkpoints().begin(), job.damaged_checkpoints().end(),
                     [&](const auto& damaged) { return damaged.epoch() < job.least_epoch(); });
}

// The last step that its present ranks know, or that it is to reach.
inline int64_t GreatestStep(const v1::JobRecord& job) {
  return std::max(job.target_step(), job.epoch_steps());
}

// Whether the checkpoint of its last step is recorded: nothing is left to do.
inline bool HasFinalCheckpoint(const v1::JobRecord& job) {
  return job.has_checkpoint() && job.checkpoint().step() >= job.target_step();
}

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_ENTRY_H_
