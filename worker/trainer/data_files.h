// Whether a job trains on the files that it began with: identities of its data files, as the plan
// of each start finds them.
#ifndef STRATA_WORKER_TRAINER_DATA_FILES_H_
#define STRATA_WORKER_TRAINER_DATA_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"
#include "proto/strata/v1/trainer.pb.h"
#include "protocol/data_files.h"

namespace strata::worker {

// Those of the job's data section, in its order: the training files, then that of the validation.
// Errors of data::IdentifyFile.
absl::StatusOr<protocol::DataFiles> IdentifyDataFiles(const v1::JobSpec& job);

// For a manifest, and from one.
std::vector<checkpoint::DataFileInfo> ToManifest(const protocol::DataFiles& files);
protocol::DataFiles FromManifest(const std::vector<checkpoint::DataFileInfo>& files);

// InvalidArgument: a file is another one than when the start was planned.
absl::Status CheckUnchanged(const v1::JobSpec& job, const v1::JobPlan& plan);

// Whether a job with the files of `plan` may go on from a checkpoint of `other` with those of
// `recorded`, which are not none. InvalidArgument names the file that the user knows, how it has
// changed, and what to do. What is only to be told becomes a notice of the plan: another validation
// file was named.
absl::Status CheckSameData(const v1::JobSpec& job, const v1::JobSpec& other,
                           const protocol::DataFiles& recorded, v1::JobPlan& plan);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_DATA_FILES_H_
