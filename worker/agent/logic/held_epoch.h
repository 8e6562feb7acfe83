// One start of a job's ranks on this node, under a controller: planning, preparing, training, end.
// It is also what an agent finds again of an earlier agent's trainers.
#ifndef STRATA_WORKER_AGENT_LOGIC_HELD_EPOCH_H_
#define STRATA_WORKER_AGENT_LOGIC_HELD_EPOCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "worker/agent/logic/agent_host.h"
#include "worker/agent/logic/group_watch.h"
#include "worker/agent/logic/hang_watch.h"
#include "worker/agent/logic/job_task.h"
#include "worker/agent/logic/plan_task.h"

namespace strata::worker {

// What epochs share. Borrowed by them.
struct EpochEnvironment {
  AgentHost* host = nullptr;
  const common::Clock* clock = nullptr;
  std::string boot_id;         // of the machine
  std::string trainer_socket;  // path at which trainers find an agent again
  std::string data_devices;    // TrainerTask.data_devices of its ranks
  int devices = 1;
  int threads_per_device = 1;
  double lease_seconds = 30;
  v1::TimingPolicy timing;  // as the controller said last; empty: nothing yet
  // To the controller, while it is there; what it must know is said again when it is back.
  std::function<void(const v1::AgentMessage&)> say;
  // Optional: what this machine was measured to take, as it is known now.
  std::function<std::optional<v1::Profile>()> profile;
  double connected_since = -1;  // clock time at which the controller welcomed us; negative: away
};

// Used by one thread.
class HeldEpoch final : private Overseer {
 public:
  HeldEpoch(EpochEnvironment* environment, v1::PrepareEpoch prepare);
  // Of an earlier agent: its trainers live on, or have left behind how they ended, or it had ended
  // already and is to be told again.
  static std::unique_ptr<HeldEpoch> Adopt(EpochEnvironment* environment,
                                          const v1::HeldEpochRecord& record);
  ~HeldEpoch() override;

  const v1::JobEpoch& epoch() const { return record_.prepare().epoch(); }
  // Starts to plan. Once, when the devices are free.
  void Begin();
  bool begun() const { return stage_ != Stage::kWaiting; }
  // No trainer exists any more.
  bool ended() const { return stage_ == Stage::kEnded; }
  // The controller has had time to hear how it ended.
  bool Confirmed(double now) const;
  // No later agent needs to find it again: it was told, or its ranks were ended with the agent.
  void Forget();

  // The controller's words.
  void OnTiming();   // environment->timing is another
  void OnKept();     // by its Welcome: it is the epoch that counts, and may publish
  void OnPrepare();  // again
  void OnStart(const v1::StartEpoch& start);
  void OnStop(const v1::StopEpoch& stop);
  void OnStopAfter(int64_t step);
  void OnManifest(const v1::WriteManifest& manifest);
  void OnAnswer(const v1::CommitAnswer& answer);
  // A device of the node can train no more: its rank is ended, and the others with it.
  void OnDeviceFailed(int device, const std::string& reason);
  // Ends all trainers at once.
  void Kill(const std::string& cause, const std::string& reason);

  // For Register; nothing when there is nothing left to hold.
  std::optional<v1::HeldEpoch> Held();
  // The controller is back: what it may have missed.
  void SayAgain();
  // The session is gone: what was said in the last moments may be lost.
  void OnDisconnect() { said_at_ = -1; }
  void AddHeartbeats(v1::Heartbeat& heartbeat);

  // A trainer says hello on a socket of its own: whether it is one of these. It is then given that
  // socket, and OnAttached follows, before anything is read from it.
  bool Expects(int rank, int64_t pid);
  void OnAttached(int rank);

  // After anything has happened, and by the deadline (clock time; negative: none).
  double deadline() const;
  void HandleDeadlines();
  // Several times a second.
  void Tick();
  // The trainers go on without this process.
  void LetGo();

 private:
  enum class Stage { kWaiting, kOpening, kPlanning, kHolding, kEnded };

  // Overseer
  absl::Status OnPrepared(TrainerGroup& group, const std::vector<v1::Prepared>& prepared) override;
  void OnRunning() override;
  void OnProgress(const v1::JobProgress& progress) override;
  absl::Status OnWritten(TrainerGroup& group, int rank,
                         const v1::CheckpointWritten& written) override;
  absl::Status OnRecord(TrainerGroup& group, const v1::RecordCheckpoint& record) override;
  void OnStopping(TrainerGroup& group, int64_t step) override;

  std::vector<int> own() const;
  bool first() const;  // rank 0 is here
  v1::TrainerTask MakeTask() const;
  GroupWatch* watch();
  // Its directories are opened and then it plans, at once or, where these do not answer, later.
  void Open();
  absl::Status StartPlanning();
  void PlanningEnded();
  void ReportNewer();
  std::string CheckpointPath(int64_t step) const;
  // Whether its ranks can have trained before, from a checkpoint.
  bool HasTrained() const;
  bool IsPermanent(const absl::Status& status) const;
  absl::Status CheckFits(bool* permanent) const;
  absl::Status StartRanks();
  absl::Status OpenRecords();
  void CloseRecords();
  // What waited for the file systems of the job goes on.
  absl::Status PublishWhatIsThere();
  void NoteUnread();
  void DeliverStart();
  // Found again after the agent's restart, and not all of its ranks have come back yet.
  bool ComesBack() const;
  void WatchForHangs();
  void Report(const HangVerdict& verdict);
  void ForwardLogs(bool last);
  void SaveRecord();
  // It cannot be: the controller is told so once nothing runs.
  void Refuse(v1::EpochPrepared problem);
  void Finish();
  v1::EpochEnded HowItEnded() const;
  v1::CheckpointFragments& FragmentsOf(int64_t step);
  void SayFragments(const v1::CheckpointFragments& written);
  void SayCommit();
  void SayStopping();
  void SayFinal();

  EpochEnvironment* const environment_;
  v1::HeldEpochRecord record_;
  Stage stage_ = Stage::kWaiting;
  std::optional<PlanTask> plan_task_;
  std::optional<JobTask> job_task_;
  std::unique_ptr<EpochHost> host_;
  std::unique_ptr<StepRecords> records_;
  bool published_ = false;                             // records_ was opened; never again
  bool opening_records_ = false;                       // they have not answered yet
  std::optional<GroupWatch> plan_watch_, rank_watch_;  // after the tasks: they use them
  std::optional<HangWatch> hang_watch_;

  std::optional<v1::StartEpoch> start_;
  std::deque<v1::JobProgress> progress_;        // the newest
  std::optional<v1::RecordCheckpoint> commit_;  // unanswered
  bool refused_commit_ = false;
  double open_by_ = -1;  // clock time: its directories have answered by then
  double back_by_ = -1;  // clock time: adopted trainers have found us by then
  double stop_by_ = -1;  // clock time: the second half of an orderly stop has come by then
  // In an orderly stop: the step that its ranks are in or have done, or are to end after.
  std::optional<int64_t> stopping_at_;
  // An orderly stop, and its second half, that wait until all ranks are back.
  std::optional<v1::StopEpoch> stop_;
  std::optional<int64_t> stop_after_;
  double missed_at_ = -1;            // clock time of the last report of a rank elsewhere
  std::optional<HangVerdict> hang_;  // of a rank here, which was ended
  std::string killed_cause_, killed_reason_;
  int killed_rank_ = -1;  // that is the cause; -1: none
  std::optional<v1::EpochPrepared> problem_;
  std::optional<v1::AgentMessage> final_;
  std::vector<int> adopted_unread_;  // places whose progress files could not be read
  bool found_ended_ = false;         // an earlier agent's, and none of them has said hello
  double said_at_ = -1;  // clock time at which final_ was said; negative: not in this session
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_HELD_EPOCH_H_
