#include "model/optimizer/update_template.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/units.h"
#include "model/emit/template_builder.h"
#include "program/ir/scalars.h"

namespace strata::model {

using ops::UpdateNumbers;
using program::Role;

std::vector<std::pair<int64_t, int64_t>> DecayRanges(const program::ParameterSet& set) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const program::TensorSpec& tensor : set.tensors) {
    if (!tensor.decay) continue;
    const int64_t end = tensor.offset + tensor.elements();
    if (!ranges.empty() && common::RoundUp(ranges.back().second, set.alignment) == tensor.offset) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(tensor.offset, end);
    }
  }
  return ranges;
}

UpdateNumbers NumbersOf(const program::ParameterSet& set, const program::UpdateRange& range,
                        const NumberFormats& formats,
                        const std::vector<program::StateSpec>& moments) {
  STRATA_CHECK(range.count > 0 && range.first + range.count <= range.stride);
  UpdateNumbers numbers{.count = range.count,
                        .first = range.first,
                        .stride = range.stride,
                        .weights = set.type,
                        .gradient = formats.gradient,
                        .moment_count = static_cast<int>(moments.size()),
                        .decay = DecayRanges(set)};
  if (numbers.has_master()) numbers.master = formats.master;
  for (size_t m = 0; m < moments.size(); ++m) numbers.moments[m] = moments[m].format;
  return numbers;
}

program::Template UpdateTemplate(std::string name, program::Op op, const UpdateNumbers& numbers) {
  TemplateBuilder builder(std::move(name), {});
  const ops::OperandSpecs specs = numbers.Operands();
  const int states = static_cast<int>(numbers.states().size());
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const int64_t bytes = specs[i].bytes();
    if (i == UpdateNumbers::kGradient) {
      op.operands.push_back(Read(builder.Formal(Role::kGradients, 0, bytes, "gradients")));
    } else if (i == UpdateNumbers::kScalars) {
      op.operands.push_back(
          Read(builder.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars")));
    } else if (i == UpdateNumbers::kNextWeights) {
      op.operands.push_back(Write(builder.Formal(Role::kParameters, 1, bytes, "next parameters")));
    } else if (i < UpdateNumbers::kStates + 2 * states) {
      const int state = i - UpdateNumbers::kStates;
      const View view = builder.Formal(Role::kState, state, bytes, absl::StrCat("state ", state));
      op.operands.push_back(state < states ? Read(view) : Write(view));
    } else {
      op.operands.push_back(Read(builder.Formal(Role::kParameters, 0, bytes, "parameters")));
    }
  }
  builder.Append(std::move(op));
  return std::move(builder).Finish();
}

}  // namespace strata::model
