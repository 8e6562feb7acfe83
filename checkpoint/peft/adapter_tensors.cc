#include "checkpoint/peft/adapter_tensors.h"

#include <algorithm>
#include <cstdint>

#include "model/adapter_names.h"
#include "model/weight_names.h"

namespace strata::checkpoint {

std::vector<AdapterTensor> AdapterTensorsOf(const model::ModelSpec& spec,
                                            absl::Span<const LogicalTensorShape> tensors) {
  std::vector<AdapterTensor> adapters;
  for (const LogicalTensorShape& tensor : tensors) {
    if (model::IsAdapter(tensor.name)) adapters.push_back({tensor.name, tensor.shape});
  }
  const auto first_row = [&](const AdapterTensor& tensor) {
    return model::HuggingFaceTensor(spec, model::WeightBeside(tensor.name)).first_row;
  };
  std::stable_sort(
      adapters.begin(), adapters.end(),
      [&](const AdapterTensor& a, const AdapterTensor& b) { return first_row(a) < first_row(b); });
  return adapters;
}

}  // namespace strata::checkpoint
