#include "checkpoint/huggingface/stored_tensors.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/weight_names.h"

namespace strata::checkpoint {

std::vector<LogicalTensorShape> LogicalTensorsOf(absl::Span<const program::ParameterSet> sets) {
  std::vector<LogicalTensorShape> tensors;
  std::set<std::string> seen;
  for (const program::ParameterSet& set : sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      for (int part = 0; part < tensor.part_count(); ++part) {
        const std::string& name = tensor.logical_name(part);
        if (seen.insert(name).second) tensors.push_back({name, tensor.logical_shape(part)});
      }
    }
  }
  return tensors;
}

std::vector<StoredTensor> StoredTensorsOf(const model::ModelSpec& spec,
                                          absl::Span<const LogicalTensorShape> tensors) {
  std::vector<StoredTensor> stored;
  std::map<std::string, size_t> index;
  for (const LogicalTensorShape& logical : tensors) {
    const model::StoredAs where = model::HuggingFaceTensor(spec, logical.name);
    const auto [at, is_new] = index.emplace(where.tensor, stored.size());
    if (is_new) stored.push_back({where.tensor, {}, {}});
    stored[at->second].parts.push_back({logical, where.transposed, where.first_row});
  }
  for (StoredTensor& tensor : stored) {
    std::sort(tensor.parts.begin(), tensor.parts.end(),
              [](const StoredPart& a, const StoredPart& b) { return a.first_row < b.first_row; });
    tensor.shape = tensor.parts.front().logical.shape;
    const StoredPart& last = tensor.parts.back();
    if (!tensor.shape.empty()) tensor.shape[0] = last.first_row + last.logical.shape[0];
    if (last.transposed) std::reverse(tensor.shape.begin(), tensor.shape.end());
  }
  return stored;
}

}  // namespace strata::checkpoint
