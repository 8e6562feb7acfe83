#include "model/optimizer/adamw.h"

#include "common/check.h"
#include "common/units.h"
#include "model/emit/template_builder.h"
#include "ops/adamw.h"
#include "program/ir/scalars.h"

namespace strata::model {

using program::Role;

std::vector<std::pair<int64_t, int64_t>> DecayRanges(const program::ParameterSet& set) {
  constexpr int64_t kPadding = program::kSlotAlignment / 4;  // tensors begin at multiples of this
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const program::TensorSpec& tensor : set.tensors) {
    if (!tensor.decay) continue;
    const int64_t end = tensor.offset + tensor.elements();
    if (!ranges.empty() && common::RoundUp(ranges.back().second, kPadding) == tensor.offset) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(tensor.offset, end);
    }
  }
  return ranges;
}

program::Template EmitAdamW(const program::ParameterSet& set, const AdamWSpec& spec,
                            int64_t count) {
  STRATA_CHECK(count > 0 && set.elements % count == 0);
  TemplateBuilder builder("adamw " + set.name, 1);
  const auto range = [&](Role role, int index, const char* name) {
    return builder.Formal(role, index, count * 4, name);
  };
  program::Op op = ops::ToOp(ops::AdamW{{.count = count,
                                         .decay = DecayRanges(set),
                                         .beta1 = spec.beta1,
                                         .beta2 = spec.beta2,
                                         .epsilon = spec.epsilon,
                                         .weight_decay = spec.weight_decay}});
  op.operands = {Read(range(Role::kParameters, 0, "parameters")),
                 Read(range(Role::kState, 0, kAdamWStates[0])),
                 Read(range(Role::kState, 1, kAdamWStates[1])),
                 Read(range(Role::kGradients, 0, "gradients")),
                 Read(builder.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars")),
                 Write(range(Role::kParameters, 1, "next parameters")),
                 Write(range(Role::kState, 2, "next adam.m")),
                 Write(range(Role::kState, 3, "next adam.v"))};
  builder.Append(std::move(op));
  return std::move(builder).Finish();
}

}  // namespace strata::model
