#include "worker/trainer/adapters.h"

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/peft/adapter_config.h"
#include "checkpoint/peft/adapter_tensors.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<checkpoint::AdapterWeights>> OpenAdapter(
    const v1::JobSpec& job, absl::Span<const program::ParameterSet> sets,
    checkpoint::FileSystem* files) {
  const std::string& folder = job.model().adapter();
  ASSIGN_OR_RETURN(const checkpoint::AdapterConfig config,
                   checkpoint::ReadAdapterConfig(folder, files));
  const v1::LoraSpec& lora = job.train().lora();
  if (config.rank != lora.rank() || config.alpha != lora.alpha()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.adapter: ", folder, " has rank ", config.rank, " and alpha ", config.alpha,
        ", train.lora has ", lora.rank(), " and ", lora.alpha(), " — give those of the adapter"));
  }
  ASSIGN_OR_RETURN(const model::ModelSpec model, model::FromProto(job.model()));
  return checkpoint::AdapterWeights::Open(
      folder, checkpoint::AdapterTensorsOf(model, checkpoint::LogicalTensorsOf(sets)),
      checkpoint::AdapterWeights::Named::kSome, files);
}

}  // namespace strata::worker
