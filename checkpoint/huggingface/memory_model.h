// Small models whose tensors are functions of name and index, for this folder's tests.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_MEMORY_MODEL_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_MEMORY_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/tensor_source.h"
#include "model/model_spec.h"

namespace strata::checkpoint {

struct MemoryModel {
  model::ModelSpec spec;
  std::vector<LogicalTensorShape> tensors;
};
MemoryModel SmallLlama();
MemoryModel SmallGpt2();  // transposed and packed
MemoryModel SmallPhi3();  // packed

// Element `index` of a tensor: exact in each of the three types, different everywhere near.
float StoredValue(const std::string& name, int64_t index);

class MemorySource final : public TensorSource {
 public:
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

  std::string missing;  // this tensor is not there
  float scale = 1;
};

// Reads whole tensors, random ranges and random boxes of them.
void ExpectSameRanges(const MemoryModel& model, TensorSource& source);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_MEMORY_MODEL_H_
