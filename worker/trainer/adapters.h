// The adapter that a job goes on from.
#ifndef STRATA_WORKER_TRAINER_ADAPTERS_H_
#define STRATA_WORKER_TRAINER_ADAPTERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/file_system.h"
#include "checkpoint/peft/adapter_weights.h"
#include "program/ir/parameter_set.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

// Opens model.adapter for what a rank holds of it. InvalidArgument: it cannot be used, or its rank
// or alpha is not the job's. `files` outlives the result.
absl::StatusOr<std::unique_ptr<checkpoint::AdapterWeights>> OpenAdapter(
    const v1::JobSpec& job, absl::Span<const program::ParameterSet> sets,
    checkpoint::FileSystem* files);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_ADAPTERS_H_
