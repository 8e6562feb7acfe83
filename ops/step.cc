#include "ops/step.h"

namespace strata::ops {

using program::Access;
using program::DType;
using program::Scalar;

void LoadBatch::Visit(AttributeVisitor& visitor) {
  visitor.Size("samples", samples);
  visitor.Size("sequence", sequence);
  visitor.Option("documents", documents);
}

OperandSpecs LoadBatch::Operands() const {
  const auto out = [&](const char* name) {
    return Out(name, "[samples, T]", samples * sequence, DType::kI32);
  };
  OperandSpecs operands = {out("tokens"), out("targets")};
  if (documents) operands.push_back(out("positions"));
  return operands;
}

OperandSpecs LoadScalars::Operands() const {
  return {Scalars("scalars", "kStep to kValidTokens", Access::kWrite, Scalar::kStep,
                  Scalar::kValidTokens)};
}

void FinishStep::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Count("sets", sets);
  visitor.Size("data", data);
  visitor.Size("together", together);
  visitor.Size("norm_ranks", norm_ranks);
  visitor.Number("clip", clip);
  visitor.Option("scaled", scaled);
}

absl::Status FinishStep::Validate() const {
  if (clip < 0) return Require(false, "clip is negative");
  return Require(rows % data == 0 && data % together == 0 && rows % norm_ranks == 0,
                 "rows are not divided by the ranks that hold them");
}

OperandSpecs FinishStep::Operands() const {
  OperandSpecs specs{In("losses", "[rows]", rows, DType::kF64),
                     Scalars("scalars", "kInverseTokens", Access::kRead, Scalar::kInverseTokens,
                             Scalar::kInverseTokens),
                     Scalars("results", "kLoss to kClipped; only kLoss with 0 sets", Access::kWrite,
                             Scalar::kLoss, sets > 0 ? Scalar::kClipped : Scalar::kLoss)};
  if (sets > 0) {
    specs.push_back(In("norms", "[norm_ranks, sets, rows / norm_ranks]", rows * sets, DType::kF64));
  }
  if (scaled) {
    specs.push_back(
        Scalars("scale", "kLossScale", Access::kRead, Scalar::kLossScale, Scalar::kLossScale));
  }
  return specs;
}

}  // namespace strata::ops
