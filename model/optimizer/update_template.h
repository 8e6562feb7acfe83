// What the templates of all optimizers' updates have in common.
#ifndef STRATA_MODEL_OPTIMIZER_UPDATE_TEMPLATE_H_
#define STRATA_MODEL_OPTIMIZER_UPDATE_TEMPLATE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/optimizer/number_formats.h"
#include "ops/update.h"
#include "program/ir/op.h"
#include "program/ir/parameter_set.h"
#include "program/ir/template.h"

namespace strata::model {

// Ranges [begin, end) of the set's flat layout that decay: tensors of two or more dimensions.
// Ascending; neighbours that only padding (which is zero) separates are one range.
std::vector<std::pair<int64_t, int64_t>> DecayRanges(const program::ParameterSet& set);

// Of a range of the set, with these moments.
ops::UpdateNumbers NumbersOf(const program::ParameterSet& set, const program::UpdateRange& range,
                             const NumberFormats& formats,
                             const std::vector<program::StateSpec>& moments);

// The template of one such op: formals kParameters 1 (version s + 1) and, where read, 0; kState i
// and, of n states, n + i of the next version; kGradients 0; kScalars.
program::Template UpdateTemplate(std::string name, program::Op op,
                                 const ops::UpdateNumbers& numbers);

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_UPDATE_TEMPLATE_H_
