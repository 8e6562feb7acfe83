// The step records of a job on disk: the file of this epoch, DIR/.epoch-E/metrics.jsonl, and the
// published ones, DIR/metrics.jsonl and the user's `--metrics`. Published files are cut at the
// checkpoint that the job goes on from (temporary name, rename) and continued; lines up to there
// keep their bytes.
#ifndef STRATA_WORKER_AGENT_TRAINERS_METRICS_FILES_H_
#define STRATA_WORKER_AGENT_TRAINERS_METRICS_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/agent.pb.h"
#include "worker/agent/logic/step_records.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

// The complete lines of steps up to `step` in `text`, in order, each the last one of its step; less
// when some are missing, up to the first gap. They begin with the first step that is there: a job
// that starts from another's checkpoint has no step 1.
std::string CutAtStep(const std::string& text, int64_t step);

// The step up to which the job's records in `text` count for this epoch: those up to `start_step`,
// and further ones as far as this epoch of this job wrote them without a gap.
int64_t PublishedStep(const std::string& text, const v1::JobEpoch& epoch, int64_t start_step);

// Cuts the file at `step`, which is started anew for 0. Where records up to `step` are not all in
// it but in `fallback` (a text cut already; may be empty), it gets those. Returns what it holds
// now. A path that is no regular file (a pipe) is left as it is. Errors name the path.
absl::StatusOr<std::string> CutFile(const std::string& path, int64_t step,
                                    const std::string& fallback);

// Written by one thread.
class MetricsFiles final : public StepRecords {
 public:
  // `metrics_path` may be empty, or the same file as DIR/metrics.jsonl. The folder of the epoch
  // exists. `missing`: set to whether published records do not reach `start_step`.
  static absl::StatusOr<MetricsFiles> Open(const std::string& job_directory,
                                           const std::string& metrics_path,
                                           const std::string& epoch_folder, int64_t start_step,
                                           bool* missing);

  // As Open, for an epoch that may have published records already, by an agent that is gone.
  // `published`: set to the step up to which the records are there.
  static absl::StatusOr<MetricsFiles> Continue(const std::string& job_directory,
                                               const std::string& epoch_folder,
                                               const v1::JobEpoch& epoch, int64_t start_step,
                                               int64_t* published, bool* missing);

  // To each file, each in one write, so that readers see whole lines. Errors name the path.
  absl::Status Append(const v1::StepRecord& record) override;
  absl::Status AppendLine(const std::string& line);
  absl::StatusOr<int64_t> Written() override { return written_; }
  absl::Status Sync();
  absl::StatusOr<bool> Sync(int64_t step) override;

 private:
  struct File {
    std::string path;
    Descriptor descriptor;
  };
  static absl::StatusOr<File> OpenFile(const std::string& path, int links);

  std::vector<File> files_;
  int64_t written_ = 0;  // step
  std::string job_uid_;  // empty: a run's in somebody's terminal
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_METRICS_FILES_H_
