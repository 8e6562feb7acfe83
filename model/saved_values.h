// What a layer's forward pass keeps for its backward pass: the names that a job's
// parallel.recompute.save may hold, and what each costs.
#ifndef STRATA_MODEL_SAVED_VALUES_H_
#define STRATA_MODEL_SAVED_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace strata::model {

struct SavedValue {
  std::string name;
  int64_t bytes = 0;  // per token and layer, in f32
};

// In the order in which a layer computes them, of llama-style blocks (families/llama.h lists them).
// The input of a layer is kept besides, whatever is recomputed.
std::vector<SavedValue> SavableValues(const ModelSpec& spec);

// Their names: the same for every size.
const std::vector<std::string>& NamesOfSavableValues();

}  // namespace strata::model

#endif  // STRATA_MODEL_SAVED_VALUES_H_
