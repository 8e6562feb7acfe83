// Stochastic gradient descent with momentum.
#ifndef STRATA_OPS_SGD_H_
#define STRATA_OPS_SGD_H_

#include "ops/update.h"

namespace strata::ops {

struct Sgd {
  static constexpr program::OpKind kKind = program::OpKind::kSgd;
  static constexpr const char* kSummary =
      "One update as torch.optim.SGD makes it: g = gradient · kClipFactor + weight_decay · w (in "
      "the "
      "ranges), b = momentum · b + g, w -= kLearningRate · b. Types and formats as of mixed-adamw.";

  UpdateNumbers numbers{.moment_count = 1};
  double momentum = 0, weight_decay = 0;

  void Visit(AttributeVisitor& visitor) {
    numbers.Visit(visitor);
    visitor.Number("momentum", momentum);
    visitor.Number("weight_decay", weight_decay);
  }
  absl::Status Validate() const {
    if (momentum < 0 || momentum >= 1) return Require(false, "momentum is not in [0, 1)");
    if (weight_decay < 0) return Require(false, "weight_decay is negative");
    return numbers.Validate();
  }
  OperandSpecs Operands() const { return numbers.Operands(); }
  static Sgd Example() {
    return {.numbers = UpdateNumbers::Example(1), .momentum = 0.9, .weight_decay = 0.1};
  }
};

}  // namespace strata::ops

#endif  // STRATA_OPS_SGD_H_
