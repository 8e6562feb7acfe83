// What a block's forward pass can keep for its backward pass: the names that a job's
// parallel.recompute.save may hold, and what each costs (passes/recompute.h).
#ifndef STRATA_MODEL_SAVED_VALUES_H_
#define STRATA_MODEL_SAVED_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "model/passes/recompute.h"

namespace strata::model {

// In the order in which a block of the model makes them. The input of a layer is kept besides,
// whatever is recomputed. Replays' FLOPs are those at this sequence length.
std::vector<SavedValue> SavableValues(const ModelSpec& spec, int64_t sequence = 1);

// Of any model of the family: names, and what is saved by default.
std::vector<SavedValue> SavableValuesOf(Family family);

// Their names: the same for every size of a family. Without one: those that some family has.
std::vector<std::string> NamesOfSavableValues(std::optional<Family> family);

}  // namespace strata::model

#endif  // STRATA_MODEL_SAVED_VALUES_H_
