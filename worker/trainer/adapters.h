// Adapters of a job: what is trained beside a frozen model.
#ifndef STRATA_WORKER_TRAINER_ADAPTERS_H_
#define STRATA_WORKER_TRAINER_ADAPTERS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/file_system.h"
#include "checkpoint/peft/adapter_weights.h"
#include "model/passes/model_graph.h"
#include "program/ir/parameter_set.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

// Rank 0 with the method full.
model::LoraOptions LoraOf(const v1::TrainSpec& train);
inline bool Adapts(const v1::TrainSpec& train) { return LoraOf(train).rank > 0; }

// The tensors of adapters among those of the sets, whole.
std::vector<checkpoint::AdapterTensor> AdapterTensorsOf(
    absl::Span<const program::ParameterSet> sets);

// Opens model.adapter for what a rank holds of it. InvalidArgument: it cannot be used, or its rank
// or alpha is not the job's. `files` outlives the result.
absl::StatusOr<std::unique_ptr<checkpoint::AdapterWeights>> OpenAdapter(
    const v1::JobSpec& job, absl::Span<const program::ParameterSet> sets,
    checkpoint::FileSystem* files);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_ADAPTERS_H_
