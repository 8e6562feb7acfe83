// Step records on a file system that may hang.
#ifndef STRATA_WORKER_AGENT_CLUSTER_LATE_RECORDS_H_
#define STRATA_WORKER_AGENT_CLUSTER_LATE_RECORDS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/agent/logic/step_records.h"
#include "worker/agent/machine/file_work.h"
#include "worker/agent/trainers/metrics_files.h"

namespace strata::worker {

// Writes on the work's thread; nobody waits for longer than a moment.
class LateRecords final : public StepRecords {
 public:
  // Borrowed: work. `files`: used by the work alone from now on. `written`: the last step that is
  // in them.
  LateRecords(FileWork* work, std::shared_ptr<MetricsFiles> files, int64_t written);

  absl::Status Append(const v1::StepRecord& record) override;
  absl::StatusOr<int64_t> Written() override;
  absl::StatusOr<bool> Sync(int64_t step) override;

 private:
  struct State;

  FileWork* const work_;
  const std::shared_ptr<State> state_;  // shared with the work
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_LATE_RECORDS_H_
