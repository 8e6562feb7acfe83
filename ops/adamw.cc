#include "ops/adamw.h"

namespace strata::ops {
namespace {

using program::Access;
using program::Scalar;

const AdamWAttributes& ExampleAttributes() {
  static const AdamWAttributes example = {.count = 64,
                                          .stride = 64,
                                          .decay = {{0, 16}, {32, 50}},
                                          .beta1 = 0.9,
                                          .beta2 = 0.95,
                                          .epsilon = 1e-8,
                                          .weight_decay = 0.1};
  return example;
}

OperandSpecs UpdateOperands(int64_t count, const char* gradient) {
  constexpr const char* kShape = "[count]";
  return {In("param", kShape, count),
          In("m", kShape, count),
          In("v", kShape, count),
          In(gradient, kShape, count),
          Scalars("scalars", "kApplied, kLearningRate, kClipFactor", Access::kRead,
                  Scalar::kApplied, Scalar::kClipFactor),
          Out("next param", kShape, count),
          Out("next m", kShape, count),
          Out("next v", kShape, count)};
}

}  // namespace

void AdamWAttributes::Visit(AttributeVisitor& visitor) {
  visitor.Size("count", count);
  visitor.Count("first", first);
  visitor.Count("stride", stride);
  visitor.Ranges("decay", decay);
  visitor.Number("beta1", beta1);
  visitor.Number("beta2", beta2);
  visitor.Number("epsilon", epsilon);
  visitor.Number("weight_decay", weight_decay);
}

absl::Status AdamWAttributes::Validate() const {
  const auto rate = [](double beta) { return beta >= 0 && beta < 1; };
  if (!rate(beta1) || !rate(beta2)) return Require(false, "a beta is not in [0, 1)");
  if (first + count > stride) return Require(false, "the range ends behind the rank's part");
  return Require(epsilon >= 0 && weight_decay >= 0, "epsilon or weight_decay is negative");
}

AdamW AdamW::Example() { return {ExampleAttributes()}; }

OperandSpecs AdamW::Operands() const { return UpdateOperands(of.count, "gradient"); }

AdamWFixUp AdamWFixUp::Example() { return {ExampleAttributes()}; }

OperandSpecs AdamWFixUp::Operands() const { return UpdateOperands(of.count, "speculative m"); }

}  // namespace strata::ops
