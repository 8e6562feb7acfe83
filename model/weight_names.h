// Where the tensors of a model stand in a Hugging Face directory of its family.
//
// A logical tensor is what users see, checkpoints hold and parameter sets are made of: y = x · Wᵀ,
// so a matrix is [out, in]. It has transformers' name where that is one tensor too
// ("model.layers.3.self_attn.q_proj.weight", "transformer.h.3.ln_1.weight"). Families that keep
// several in one call its parts
//   transformer.h.3.attn.c_attn.{q,k,v}.{weight,bias}        GPT-2, in transformer.h.3.attn.c_attn
//   model.layers.3.self_attn.qkv_proj.{q,k,v}.weight         Phi-3
//   model.layers.3.mlp.gate_up_proj.{gate,up}.weight         Phi-3
#ifndef STRATA_MODEL_WEIGHT_NAMES_H_
#define STRATA_MODEL_WEIGHT_NAMES_H_

#include <cstdint>
#include <string>

#include "model/model_spec.h"

namespace strata::model {

// The logical tensor is rows [first_row, first_row + rows) of `tensor`, after transposing it where
// `transposed`: GPT-2 stores the matrices of its blocks [in, out]. Of biases rows are elements.
struct StoredAs {
  std::string tensor;
  bool transposed = false;
  int64_t first_row = 0;
  int64_t rows = 0;  // 0: all, the tensor is not shared with others

  bool operator==(const StoredAs&) const = default;
};

StoredAs HuggingFaceTensor(const ModelSpec& spec, const std::string& logical_name);

}  // namespace strata::model

#endif  // STRATA_MODEL_WEIGHT_NAMES_H_
