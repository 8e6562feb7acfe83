// The one place where jobs change their state.
//
//   QUEUED ──> STARTING ──> RUNNING ──> SUCCEEDED, FAILED or CANCELLED
//     ^            ^  └────────┤
//     │            └─ RECOVERING <┤ a failure, or its node is drained
//     └───────────────────────────┘ preempted, suspended
//
// Inputs only leave facts in an entry (a member is prepared, a failure, a wish to cancel);
// Reconcile draws the conclusions. A step of an epoch is taken when its facts are complete, so
// facts may come in any order and any number of times.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_MACHINE_H_
#define STRATA_CONTROLLER_LOGIC_JOB_MACHINE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/logic/cluster_state.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {

// Why a job stops for itself.
inline constexpr char kSuspended[] = "suspended";
inline constexpr char kOtherSteps[] = "stopped for other steps";

// Made for each input; borrows both.
class JobMachine {
 public:
  JobMachine(ClusterState& state, Effects& effects) : state_(state), effects_(effects) {}

  // Takes all steps that are due for this job, but placing it.
  void Reconcile(JobEntry& job);
  // Asks the scheduler who runs where and acts on it, if anything has changed that it decides by.
  // `fresh`: a job that has just joined the queue.
  void Schedule(const JobEntry* fresh);
  // What time alone brings: silent nodes, deadlines, repeated requests to stop.
  void Tick();

  // The first failure of an epoch is the one that counts.
  static void Report(JobEntry& job, Failure failure);
  // Asks a node to end an epoch's trainers, and keeps asking until it confirms.
  void Stop(NodeEntry& node, const EpochKey& key, const std::string& reason, bool checkpoint);
  void SendStop(NodeEntry& node, Hold& hold);
  void SendPrepare(const JobEntry& job, const NodeEntry& node, const Member& member);
  // What is the same in one start's messages to many nodes: made once.
  struct StartParts {
    SharedMessage with_all;           // the addresses of all ranks
    std::vector<std::string> packed;  // the address of each
  };
  // With the addresses that its ranks named, or of all ranks where they named none.
  void SendStart(const JobEntry& job, const NodeEntry& node, const Member& member,
                 StartParts& parts);
  // The second half of an orderly stop.
  void SendStopAfter(const JobEntry& job, const NodeEntry& node);
  void SendManifest(const JobEntry& job, v1::WriteManifest manifest);
  // An epoch that was given up for silence alone goes on: one of its nodes is back with its ranks.
  void TakeBack(JobEntry& job, const NodeEntry& node);
  // It cannot go on any more; what may be left of it is stopped.
  void LeaveGivenUp(JobEntry& job);
  // restored_jobs.cc: an epoch whose ranks were all found again is the job's; or they were not, and
  // those that were found are stopped.
  void TakeClaimed(JobEntry& job);
  void DropClaims(JobEntry& job);
  // Those that the job is to do, from now on.
  static void SetSteps(JobEntry& job, int64_t steps);
  // The last event turns out to have another cause.
  void Attribute(JobEntry& job, Failure failure);
  // Its ranks stop at a checkpoint, as for a more urgent job, but because its own user wishes so:
  // it is suspended, or to go on as it was updated.
  void StopForItself(JobEntry& job, const std::string& reason);
  // It waits in the queue, without ranks. `made_room`: for whom; null: for nobody.
  void Park(JobEntry& job, const std::string& reason, const v1::Preemption* made_room = nullptr);
  // Removes the records of jobs whose time has come.
  void DeleteExpired();
  // Whether its ranks are to end for good, though nothing is wrong with them.
  bool IsToEnd(const JobEntry& job) const;

 private:
  // Why they are.
  struct Ending {
    v1::Job::State outcome = v1::Job::CANCELLED;
    std::string what;  // "cancelled": begins the reason
    std::string cause;
    std::string actor = kControllerActor;
    double grace = 0;  // seconds, for the last checkpoint
  };
  std::optional<Ending> EndingOf(const JobEntry& job) const;
  void ReconcileEpoch(JobEntry& job);
  void ReconcileEnding(JobEntry& job, const Ending& ending);
  void ReportSilentNodes(JobEntry& job);
  void JudgeOwnConnection();
  void EndRestore();
  bool MayBeTakenBack(const JobEntry& job, const Failure& failure) const;
  void ReportLostFragments(JobEntry& job);
  static void ReportUncommitted(JobEntry& job, const std::string& reason);
  void AdvanceStop(JobEntry& job);
  void ReportLatePreparation(JobEntry& job);
  void AdvanceStart(JobEntry& job);
  bool OfOneBuild(const EpochRun& run) const;
  bool MayComeBack(JobEntry& job) const;
  void Fail(JobEntry& job);
  void End(JobEntry& job, v1::Job::State outcome, const std::string& reason,
           const std::string& cause, const std::string& actor = kControllerActor,
           const std::string& detail = "");
  void End(JobEntry& job, const Ending& ending, const std::string& how);
  void Succeed(JobEntry& job);  // the checkpoint of its last step is recorded
  void StopAll(const JobEntry& job, const std::string& reason, bool checkpoint);
  void AddEvent(JobEntry& job, const std::string& type, const std::string& reason,
                const std::string& cause, const std::string& actor = kControllerActor,
                const std::string& detail = "");
  void LoseNothing(JobEntry& job);

  // checkpoint_fallback.cc
  void JudgeCheckpoint(JobEntry& job, Failure& failure);

  // preemption.cc
  void Preempt(JobEntry& job, const std::string& by, const std::string& reason);
  void ReconcilePreemption(JobEntry& job);
  void LetGo(JobEntry& job, const std::string& how);
  void MoveOffDrained();
  bool MoveOff(JobEntry& job, scheduler::Occupancy& all_free);
  void TakeBackBuffer(const JobEntry& job, const scheduler::Shape& shape,
                      const scheduler::Placement& old, scheduler::Occupancy free);

  // scheduling.cc
  bool MayFit(const JobEntry& fresh) const;
  bool IsDue(const JobEntry* fresh) const;
  bool Decide();
  void Apply(const scheduler::Decisions& decisions);
  void NoteSupply();
  void TellFeasibility();
  void Begin(JobEntry& job, const scheduler::Start& start);

  // quarantine.cc
  void Blame(const JobEntry& job, const Failure& failure);
  void Exonerate(const JobEntry& job, const Failure& last);
  bool MayQuarantine(const JobEntry& job, const NodeEntry& node) const;

  ClusterState& state_;
  Effects& effects_;
};

// Whether nothing has been heard of the node for so long that its trainers have ended themselves.
bool LeaseIsOver(const ClusterState& state, const NodeEntry& node);

// "n0 and n1", "n0, n1 and 6 more".
std::string NodeList(const std::map<std::string, Member>& members);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_MACHINE_H_
