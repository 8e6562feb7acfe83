// The tensors of a Hugging Face file, and the logical tensors of the model that they consist of.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_STORED_TENSORS_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_STORED_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/model_spec.h"
#include "program/ir/parameter_set.h"

namespace strata::checkpoint {

// A logical tensor of the model: its name and whole shape, matrices [out, in].
struct LogicalTensorShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Those of a model's sets, each name once (tied tables stand in several sets).
std::vector<LogicalTensorShape> LogicalTensorsOf(absl::Span<const program::ParameterSet> sets);

// Rows [first_row, first_row + shape[0]) of a stored tensor, after transposing it where
// `transposed`, are a logical tensor.
struct StoredPart {
  LogicalTensorShape logical;
  bool transposed = false;
  int64_t first_row = 0;
};

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;     // as the file has it
  std::vector<StoredPart> parts;  // by first_row; together all of it
};

// In the order of the logical tensors; where several are one stored tensor, of the first of them.
std::vector<StoredTensor> StoredTensorsOf(const model::ModelSpec& spec,
                                          absl::Span<const LogicalTensorShape> tensors);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_STORED_TENSORS_H_
