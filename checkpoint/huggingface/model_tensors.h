// The logical tensors of a model that only its spec is known of.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "model/model_spec.h"

namespace strata::checkpoint {

// Of the whole model, in the order of its layers. InvalidArgument: sizes that no model has.
absl::StatusOr<std::vector<LogicalTensorShape>> TensorsOfModel(const model::ModelSpec& spec);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_
