#include "client/adapter_export.h"

#include <utility>

#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/peft/adapted_source.h"
#include "checkpoint/peft/adapter_tensors.h"
#include "common/status_macros.h"

namespace strata::client {

absl::StatusOr<MergedModel> MergeAdapter(const v1::JobSpec& job, const model::ModelSpec& model,
                                         const std::vector<checkpoint::LogicalTensorShape>& tensors,
                                         std::unique_ptr<checkpoint::TensorSource> adapter) {
  MergedModel merged;
  merged.adapter = std::move(adapter);
  ASSIGN_OR_RETURN(merged.tensors, checkpoint::TensorsOfModel(model));
  ASSIGN_OR_RETURN(merged.base,
                   checkpoint::HuggingFaceWeights::Open(job.model().from(), model, merged.tensors,
                                                        checkpoint::Named::kAll));
  const v1::LoraSpec& lora = job.train().lora();
  merged.values = std::make_unique<checkpoint::MergedSource>(
      merged.base.get(), merged.adapter.get(), checkpoint::AdapterTensorsOf(model, tensors),
      lora.alpha() / static_cast<double>(lora.rank()));
  return merged;
}

absl::StatusOr<checkpoint::ExportedDirectory> ExportAdapter(
    const v1::JobSpec& job, const model::ModelSpec& model,
    const std::vector<checkpoint::LogicalTensorShape>& tensors, checkpoint::TensorSource& adapter,
    checkpoint::DType type, const std::string& folder) {
  checkpoint::AdapterToWrite written;
  written.config.rank = job.train().lora().rank();
  written.config.alpha = job.train().lora().alpha();
  written.config.base = job.model().from();
  written.config.transposed = model.family == model::Family::kGpt2;
  written.tensors = checkpoint::AdapterTensorsOf(model, tensors);
  written.source = &adapter;
  written.type = type;
  RETURN_IF_ERROR(checkpoint::WriteAdapter(written, folder));
  checkpoint::ExportedDirectory exported{.files = 1};
  for (const checkpoint::AdapterTensor& tensor : written.tensors) {
    ++exported.tensors;
    exported.bytes += tensor.shape[0] * tensor.shape[1] * checkpoint::SizeOf(type);
  }
  return exported;
}

}  // namespace strata::client
