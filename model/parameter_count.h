// How many parameters a model has, by formula.
#ifndef STRATA_MODEL_PARAMETER_COUNT_H_
#define STRATA_MODEL_PARAMETER_COUNT_H_

#include "model/model_spec.h"

namespace strata::model {

// All trained values, a tied table once. A double: counts of sizes that no machine holds may exceed
// 64 bits.
double ParameterCount(const ModelSpec& spec);

}  // namespace strata::model

#endif  // STRATA_MODEL_PARAMETER_COUNT_H_
