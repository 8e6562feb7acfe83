// Which of a model's logical tensors are adapters'.
#ifndef STRATA_CHECKPOINT_PEFT_ADAPTER_TENSORS_H_
#define STRATA_CHECKPOINT_PEFT_ADAPTER_TENSORS_H_

#include <vector>

#include "absl/types/span.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/peft/adapter_weights.h"
#include "model/model_spec.h"

namespace strata::checkpoint {

// The tensors of adapters among logical ones of the model; those that a file packs into one B in
// the order of its rows.
std::vector<AdapterTensor> AdapterTensorsOf(const model::ModelSpec& spec,
                                            absl::Span<const LogicalTensorShape> tensors);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_PEFT_ADAPTER_TENSORS_H_
