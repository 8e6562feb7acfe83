// The logical tensors of a model that only its spec is known of.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "model/model_spec.h"
#include "model/passes/model_graph.h"

namespace strata::checkpoint {

// Of the whole model, in the order of its layers, with those of its adapters. InvalidArgument:
// sizes that no model has, targets that this one has not.
absl::StatusOr<std::vector<LogicalTensorShape>> TensorsOfModel(const model::ModelSpec& spec,
                                                               model::LoraOptions lora = {});

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_MODEL_TENSORS_H_
