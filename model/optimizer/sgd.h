// Stochastic gradient descent with momentum, as torch.optim.SGD has it (weight decay is added to
// the gradient): what it keeps, and the template of one update.
#ifndef STRATA_MODEL_OPTIMIZER_SGD_H_
#define STRATA_MODEL_OPTIMIZER_SGD_H_

#include <cstdint>
#include <vector>

#include "model/optimizer/number_formats.h"
#include "program/ir/parameter_set.h"
#include "program/ir/template.h"

namespace strata::model {

struct SgdSpec {
  double momentum = 0.9;
  double weight_decay = 0.1;  // of tensors of two or more dimensions
};

// One: "sgd.momentum".
std::vector<program::StateSpec> SgdMoments(const NumberFormats& formats);

// Update of `count` elements of the set: its whole flat layout, or each rank's equal part of it.
// Formals: see UpdateTemplate.
program::Template EmitSgd(const program::ParameterSet& set, const SgdSpec& spec,
                          const NumberFormats& formats, const program::UpdateRange& range);

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_SGD_H_
