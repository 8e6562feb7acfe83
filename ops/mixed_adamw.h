// AdamW over numbers of other types than f32.
#ifndef STRATA_OPS_MIXED_ADAMW_H_
#define STRATA_OPS_MIXED_ADAMW_H_

#include "ops/adamw.h"
#include "ops/update.h"

namespace strata::ops {

struct MixedAdamW {
  static constexpr program::OpKind kKind = program::OpKind::kMixedAdamW;
  static constexpr const char* kSummary =
      "adamw, where weights, moments or the gradient are not in f32: computed in f32, then "
      "rounded, "
      "weights to the nearest and ties away from zero. Formats of states: 0 f32, 1 bf16, 2 "
      "remainder, 3 and 4 blocks of 8 bits with and without sign (program/ir/optimizer_state.h).";

  UpdateNumbers numbers{.moment_count = 2};
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;

  void Visit(AttributeVisitor& visitor) {
    numbers.Visit(visitor);
    visitor.Number("beta1", beta1);
    visitor.Number("beta2", beta2);
    visitor.Number("epsilon", epsilon);
    visitor.Number("weight_decay", weight_decay);
  }
  absl::Status Validate() const {
    const AdamWAttributes rates{
        .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = weight_decay};
    absl::Status status = rates.Validate();
    return status.ok() ? numbers.Validate() : status;
  }
  OperandSpecs Operands() const { return numbers.Operands(); }
  static MixedAdamW Example() {
    return {.numbers = UpdateNumbers::Example(2),
            .beta1 = 0.9,
            .beta2 = 0.95,
            .epsilon = 1e-8,
            .weight_decay = 0.1};
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_MIXED_ADAMW_H_
