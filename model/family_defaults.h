// What a family does where nothing else is said: the values that its published models share, as
// transformers' configuration classes have them where those agree with the models.
#ifndef STRATA_MODEL_FAMILY_DEFAULTS_H_
#define STRATA_MODEL_FAMILY_DEFAULTS_H_

#include <cstdint>
#include <vector>

#include "model/model_spec.h"

namespace strata::model {

std::vector<Family> AllFamilies();

// Without sizes.
ModelSpec DefaultsOf(Family family);

// Which of `layers` see everything in a family that has windows in some layers: every second one
// (Gemma 2), every sixth (Gemma 3). Empty: windows, where there are any, are every layer's.
std::vector<bool> UsualFullAttention(Family family, int64_t layers);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILY_DEFAULTS_H_
