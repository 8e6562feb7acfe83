// The ranks of a training job on this node (or an evaluation, or a generation) from their task to
// their last event: two-phase start, step records, checkpoints, orderly stop. What is decided for
// all ranks of the job is the overseer's.
#ifndef STRATA_WORKER_AGENT_LOGIC_JOB_TASK_H_
#define STRATA_WORKER_AGENT_LOGIC_JOB_TASK_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/checkpoint_gate.h"
#include "worker/agent/logic/overseer.h"
#include "worker/agent/logic/step_merger.h"
#include "worker/agent/logic/step_records.h"
#include "worker/agent/logic/trainer_group.h"

namespace strata::worker {

class JobTask final : public GroupTask {
 public:
  // `task`: with its plan; each rank gets it with its own number. `ranks`: those here. `overseer`
  // is borrowed.
  JobTask(v1::TrainerTask task, std::vector<int> ranks, Overseer* overseer);

  void Begin(TrainerGroup& group) override;
  absl::Status OnEvent(TrainerGroup& group, int place, const v1::TrainerEvent& event) override;
  bool OnInterrupt(TrainerGroup& group) override;
  uint64_t Settled(int place, uint64_t heard) const override;

  // Step records go there (borrowed), and to the overseer as they do; without, steps are not told.
  // `published`: the last step that is there already.
  void Publish(StepRecords* records, int64_t published);
  // After the last event: the records are not used any more.
  void Close() { records_ = nullptr; }
  // Some that were appended are not known to be there.
  bool WaitsForRecords() const { return !appended_.empty(); }
  // From now on step records wait here, and their ranks keep them too.
  void HoldBack() { held_back_.emplace(); }
  // An error ends the group.
  absl::Status PublishHeldBack(TrainerGroup& group);
  // Records may be written later than they were given: from time to time. An error ends the group.
  absl::Status PublishWritten(TrainerGroup& group);
  void Start(TrainerGroup& group, v1::StartRanks start);
  // Rank 0's agent: the files of all ranks are there. A rank that has yet to come back to an agent
  // that was started anew hears of it then.
  absl::Status Commit(TrainerGroup& group, v1::CommitCheckpoint commit);
  // A trainer has come back.
  absl::Status OnAttached(TrainerGroup& group) { return CommitWhatIsReady(group); }
  void StopAfter(TrainerGroup& group, int64_t step);

  const v1::TrainerTask& task() const { return task_; }
  bool running() const { return running_count_ == places(); }

 private:
  absl::Status OnPrepared(TrainerGroup& group, int place, const v1::Prepared& prepared);
  void OnRunning(int place);
  absl::Status OnStep(TrainerGroup& group, int place, uint64_t sequence,
                      const v1::StepRecord& report);
  void OnStopping(TrainerGroup& group, int place, int64_t step);
  absl::Status CommitWhatIsReady(TrainerGroup& group);
  int places() const { return static_cast<int>(ranks_.size()); }

  struct Report {
    uint64_t sequence = 0;
    int64_t step = 0;
  };

  struct HeldBack {
    int place = 0;
    uint64_t sequence = 0;
    v1::StepRecord report;
  };

  const v1::TrainerTask task_;
  const std::vector<int> ranks_;
  Overseer* const overseer_;
  StepRecords* records_ = nullptr;
  std::vector<std::optional<v1::Prepared>> prepared_;
  std::vector<bool> running_, stopping_;
  int running_count_ = 0, stopping_count_ = 0;
  StepMerger merger_;
  std::vector<std::deque<Report>> unpublished_;  // by place
  std::optional<std::vector<HeldBack>> held_back_;
  std::deque<v1::StepRecord> appended_;  // to the records, and not known to be there
  int64_t published_;
  CheckpointGate gate_;
  std::optional<v1::CommitCheckpoint> ready_;  // waits for its step records to be there for good
  int64_t stop_after_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_JOB_TASK_H_
