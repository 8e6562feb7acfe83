// The controller's local stand-in for a task of one client: all ranks are here, commits need nobody
// else's word, and what happens is told to the client.
#ifndef STRATA_WORKER_AGENT_STANDALONE_LOCAL_OVERSEER_H_
#define STRATA_WORKER_AGENT_STANDALONE_LOCAL_OVERSEER_H_

#include <vector>

#include "proto/strata/v1/trainer.pb.h"
#include "protocol/fragments.h"
#include "worker/agent/logic/job_task.h"
#include "worker/agent/logic/overseer.h"
#include "worker/agent/standalone/client_link.h"

namespace strata::worker {

class LocalOverseer final : public Overseer {
 public:
  // `client` is borrowed.
  LocalOverseer(const v1::TrainerTask& task, ClientLink* client);
  // Whom it decides for; borrowed.
  void SetTask(JobTask* task) { job_ = task; }

  absl::Status OnPrepared(TrainerGroup& group, const std::vector<v1::Prepared>& prepared) override;
  void OnRunning() override;
  void OnProgress(const v1::JobProgress& progress) override;
  absl::Status OnWritten(TrainerGroup& group, int rank,
                         const v1::CheckpointWritten& written) override;
  absl::Status OnRecord(TrainerGroup& group, const v1::RecordCheckpoint& record) override;
  void OnStopping(TrainerGroup& group, int64_t step) override;
  void OnText(const v1::GeneratedText& text) override;
  void OnResult(const v1::EvalResult& result) override;
  void OnProfile(const v1::Profile& profile) override;

 private:
  const v1::TrainerTask task_;
  ClientLink* const client_;
  JobTask* job_ = nullptr;
  protocol::FragmentBook fragments_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_STANDALONE_LOCAL_OVERSEER_H_
