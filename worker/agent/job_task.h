// The ranks of a training job, an evaluation or a generation, from their task to their last event:
// two-phase start, step records, checkpoints, orderly stop.
#ifndef STRATA_WORKER_AGENT_JOB_TASK_H_
#define STRATA_WORKER_AGENT_JOB_TASK_H_

#include <cstdint>
#include <vector>

#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/checkpoint_gate.h"
#include "worker/agent/client_link.h"
#include "worker/agent/metrics_files.h"
#include "worker/agent/step_merger.h"
#include "worker/agent/trainer_group.h"

namespace strata::worker {

class JobTask final : public GroupTask {
 public:
  // `task`: with its plan; each rank gets it with its own number. `metrics` is null for tasks
  // without steps. Pointers are borrowed.
  JobTask(v1::TrainerTask task, ClientLink* client, MetricsFiles* metrics);

  void Begin(TrainerGroup& group) override;
  absl::Status OnEvent(TrainerGroup& group, int rank, const v1::TrainerEvent& event) override;
  bool OnInterrupt(TrainerGroup& group) override;

 private:
  absl::Status OnPrepared(TrainerGroup& group, int rank, const v1::Prepared& prepared);
  void OnRunning();
  absl::Status OnStep(TrainerGroup& group, int rank, const v1::StepRecord& report);
  void OnStopping(TrainerGroup& group, int64_t step);
  absl::Status CommitWhatIsReady(TrainerGroup& group);
  int ranks() const { return task_.ranks(); }

  const v1::TrainerTask task_;
  ClientLink* const client_;
  MetricsFiles* const metrics_;
  std::vector<v1::Prepared> prepared_;  // by rank
  int prepared_count_ = 0;
  int running_ = 0;
  StepMerger merger_;
  CheckpointGate gate_;
  int stopping_ = 0;  // ranks that have answered
  int64_t stop_after_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_JOB_TASK_H_
