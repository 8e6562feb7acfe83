#include "ops/step.h"

namespace strata::ops {

using program::Access;
using program::DType;
using program::Scalar;

void LoadBatch::Visit(AttributeVisitor& visitor) {
  visitor.Size("samples", samples);
  visitor.Size("sequence", sequence);
}

OperandSpecs LoadBatch::Operands() const {
  return {Out("tokens", "[samples, T]", samples * sequence, DType::kI32),
          Out("targets", "[samples, T]", samples * sequence, DType::kI32)};
}

OperandSpecs LoadScalars::Operands() const {
  return {Scalars("scalars", "kStep to kValidTokens", Access::kWrite, Scalar::kStep,
                  Scalar::kValidTokens)};
}

void FinishStep::Visit(AttributeVisitor& visitor) {
  visitor.Size("virtual_shards", virtual_shards);
  visitor.Count("sets", sets);
  visitor.Number("clip", clip);
}

OperandSpecs FinishStep::Operands() const {
  return {In("leaves", "[V, 1 + sets]", virtual_shards * (1 + sets), DType::kF64),
          Scalars("scalars", "kInverseTokens", Access::kRead, Scalar::kInverseTokens,
                  Scalar::kInverseTokens),
          Scalars("results", "kLoss to kClipped; only kLoss with 0 sets", Access::kWrite,
                  Scalar::kLoss, sets > 0 ? Scalar::kClipped : Scalar::kLoss)};
}

}  // namespace strata::ops
