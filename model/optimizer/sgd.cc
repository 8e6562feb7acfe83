#include "model/optimizer/sgd.h"

#include "model/optimizer/update_template.h"
#include "ops/sgd.h"

namespace strata::model {

std::vector<program::StateSpec> SgdMoments(const NumberFormats& formats) {
  return {{"sgd.momentum", "momentum", formats.moment(true)}};
}

program::Template EmitSgd(const program::ParameterSet& set, const SgdSpec& spec,
                          const NumberFormats& formats, const program::UpdateRange& range) {
  const ops::Sgd op{.numbers = NumbersOf(set, range, formats, SgdMoments(formats)),
                    .momentum = spec.momentum,
                    .weight_decay = spec.weight_decay};
  return UpdateTemplate("sgd " + set.name, ops::ToOp(op), op.numbers);
}

}  // namespace strata::model
