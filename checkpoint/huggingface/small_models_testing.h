// Small models for tests: some whose tensors are functions of name and index, and directories.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_SMALL_MODELS_TESTING_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_SMALL_MODELS_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/tensor_source.h"
#include "model/model_spec.h"

namespace strata::checkpoint {

struct ModelTensors {
  model::ModelSpec spec;
  std::vector<LogicalTensorShape> tensors;
};
ModelTensors SmallLlama();
ModelTensors SmallGpt2();  // transposed and packed
ModelTensors SmallPhi3();  // packed

// Element `index` of a tensor: exact in each of the three types, different everywhere near.
float StoredValue(const std::string& name, int64_t index);

class StoredValues final : public TensorSource {
 public:
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

  std::string missing;  // this tensor is not there
  float scale = 1;
};

// A new folder, of the test that runs, with this config.json.
std::string ModelFolderWith(const std::string& config);

// Reads whole tensors, random ranges and random boxes of them.
void ExpectSameRanges(const ModelTensors& model, TensorSource& source);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_SMALL_MODELS_TESTING_H_
