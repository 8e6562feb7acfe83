#include "worker/trainer/adapters.h"

#include "absl/strings/str_cat.h"
#include "checkpoint/peft/adapter_config.h"
#include "common/status_macros.h"
#include "model/adapter_names.h"

namespace strata::worker {
namespace {

program::DType TypeOf(const v1::QuantizeSpec& quantize) {
  if (quantize.type() == v1::QuantizeSpec::TYPE_INT8) return program::DType::kInt8;
  // Jobs of before it could be said have double quantisation.
  const bool f32_scales = quantize.has_double_() && !quantize.double_();
  return f32_scales ? program::DType::kNf4F32 : program::DType::kNf4;
}

}  // namespace

model::LoraOptions LoraOf(const v1::TrainSpec& train) {
  model::LoraOptions options;
  if (train.method() != v1::TrainSpec::METHOD_LORA &&
      train.method() != v1::TrainSpec::METHOD_QLORA) {
    return options;
  }
  options.rank = train.lora().rank();
  options.alpha = train.lora().alpha();
  options.targets.assign(train.lora().targets().begin(), train.lora().targets().end());
  if (train.method() == v1::TrainSpec::METHOD_QLORA) options.quantised = TypeOf(train.quantize());
  return options;
}

std::vector<checkpoint::AdapterTensor> AdapterTensorsOf(
    absl::Span<const program::ParameterSet> sets) {
  std::vector<checkpoint::AdapterTensor> tensors;
  for (const program::ParameterSet& set : sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      for (int part = 0; part < tensor.part_count(); ++part) {
        const std::string& name = tensor.logical_name(part);
        if (model::IsAdapter(name)) tensors.push_back({name, tensor.logical_shape(part)});
      }
    }
  }
  return tensors;
}

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
  return checkpoint::AdapterWeights::Open(folder, AdapterTensorsOf(sets),
                                          checkpoint::AdapterWeights::Named::kSome, files);
}

}  // namespace strata::worker
