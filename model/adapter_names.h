// Names of modules and of their adapters' tensors, from those of weights.
//
// A module is what PEFT puts an adapter beside: a tensor of Hugging Face without ".weight". Of a
// tensor that is packed in the files (weight_names.h), whose parts have logical names
// "….c_attn.q.weight", it is one module: one A for all parts, and a B with their rows in order.
//   weight                                     A                            B
//   model.layers.3.self_attn.q_proj.weight     ….q_proj.lora_A.weight       ….q_proj.lora_B.weight
//   transformer.h.0.attn.c_attn.k.weight       ….c_attn.lora_A.weight ….c_attn.lora_B.k.weight
// B's parts are one tensor in the files: ….c_attn.lora_B.weight.
#ifndef STRATA_MODEL_ADAPTER_NAMES_H_
#define STRATA_MODEL_ADAPTER_NAMES_H_

#include <string>
#include <vector>

#include "model/model_spec.h"

namespace strata::model {

struct AdapterNames {
  std::string module;
  std::string a, b;
};

// Of the adapter beside a logical tensor.
AdapterNames AdapterBeside(const std::string& weight);

// The weight, or its part, that a tensor of an adapter stands beside; of an A that several parts
// share, the tensor that they are parts of.
std::string WeightBeside(const std::string& adapter);

// Whether it is a tensor of an adapter, A or B.
bool IsAdapter(const std::string& tensor);

// A or B as a file has it: without the part. Of an adapter's tensor.
std::string StoredAdapter(const std::string& tensor);

// Last words of the modules of a family's blocks that can have adapters.
std::vector<std::string> AdapterTargets(Family family);

}  // namespace strata::model

#endif  // STRATA_MODEL_ADAPTER_NAMES_H_
