#include "model/optimizer/sgd.h"

#include "model/optimizer/update_template.h"
#include "ops/sgd.h"

namespace strata::model {

std::vector<program::StateSpec> SgdMoments(const NumberFormats& formats) {
  return {{"sgd.momentum", "momentum", formats.moment(true)}};
}

program::Template EmitSgd(const program::ParameterSet& set, const SgdSpec& spec,
                          const NumberFormats& formats, int64_t count) {
  const ops::Sgd op{.numbers = NumbersOf(set, count, formats, SgdMoments(formats)),
                    .momentum = spec.momentum,
                    .weight_decay = spec.weight_decay};
  return UpdateTemplate("sgd " + set.name, ops::ToOp(op), op.numbers);
}

}  // namespace strata::model
