#include "model/optimizer/adamw.h"

#include "common/check.h"
#include "model/emit/template_builder.h"
#include "model/optimizer/update_template.h"
#include "ops/adamw.h"
#include "ops/mixed_adamw.h"
#include "program/ir/scalars.h"

namespace strata::model {

using program::Role;

std::vector<program::StateSpec> AdamWMoments(const NumberFormats& formats) {
  return {{"adam.m", "first moment", formats.moment(true)},
          {"adam.v", "second moment", formats.moment(false)}};
}

program::Template EmitAdamW(const program::ParameterSet& set, const AdamWSpec& spec,
                            const program::UpdateRange& range) {
  const int64_t count = range.count;
  STRATA_CHECK(count > 0 && range.first + count <= range.stride);
  TemplateBuilder builder("adamw " + set.name, {});
  const auto values = [&](Role role, int index, const char* name) {
    return builder.Formal(role, index, count * 4, name);
  };
  program::Op op = ops::ToOp(ops::AdamW{{.count = count,
                                         .first = range.first,
                                         .stride = range.stride,
                                         .decay = DecayRanges(set),
                                         .beta1 = spec.beta1,
                                         .beta2 = spec.beta2,
                                         .epsilon = spec.epsilon,
                                         .weight_decay = spec.weight_decay}});
  op.operands = {Read(values(Role::kParameters, 0, "parameters")),
                 Read(values(Role::kState, 0, "adam.m")),
                 Read(values(Role::kState, 1, "adam.v")),
                 Read(values(Role::kGradients, 0, "gradients")),
                 Read(builder.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars")),
                 Write(values(Role::kParameters, 1, "next parameters")),
                 Write(values(Role::kState, 2, "next adam.m")),
                 Write(values(Role::kState, 3, "next adam.v"))};
  builder.Append(std::move(op));
  return std::move(builder).Finish();
}

program::Template EmitAdamW(const program::ParameterSet& set, const AdamWSpec& spec,
                            const NumberFormats& formats, const program::UpdateRange& range) {
  using program::DType;
  const bool plain = set.type == DType::kF32 && formats.gradient == DType::kF32 &&
                     formats.state == NumberFormats::State::kF32;
  if (plain) return EmitAdamW(set, spec, range);
  const ops::MixedAdamW op{.numbers = NumbersOf(set, range, formats, AdamWMoments(formats)),
                           .beta1 = spec.beta1,
                           .beta2 = spec.beta2,
                           .epsilon = spec.epsilon,
                           .weight_decay = spec.weight_decay};
  return UpdateTemplate("adamw " + set.name, ops::ToOp(op), op.numbers);
}

}  // namespace strata::model
