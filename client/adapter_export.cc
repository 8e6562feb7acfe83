#include "client/adapter_export.h"

#include <utility>

#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/peft/adapted_source.h"
#include "common/status_macros.h"
#include "model/adapter_names.h"

namespace strata::client {
namespace {

std::vector<checkpoint::AdapterTensor> AdapterTensorsOf(
    const std::vector<checkpoint::LogicalTensorShape>& tensors) {
  std::vector<checkpoint::AdapterTensor> adapters;
  // In the order of names keys would come before queries, whose rows are first.
  for (const char* part : {"", ".q", ".k", ".v", ".gate", ".up"}) {
    for (const checkpoint::LogicalTensorShape& tensor : tensors) {
      if (!model::IsAdapter(tensor.name)) continue;
      const std::string stored = model::StoredAdapter(tensor.name);
      const bool is_part = *part == '\0' ? stored == tensor.name
                                         : tensor.name.ends_with(std::string(part) + ".weight") &&
                                               stored != tensor.name;
      if (is_part) adapters.push_back({tensor.name, tensor.shape});
    }
  }
  return adapters;
}

}  // namespace

bool TrainsAdapters(const v1::JobSpec& job) {
  return job.train().method() == v1::TrainSpec::METHOD_LORA ||
         job.train().method() == v1::TrainSpec::METHOD_QLORA;
}

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
      merged.base.get(), merged.adapter.get(), AdapterTensorsOf(tensors),
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
  written.tensors = AdapterTensorsOf(tensors);
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
