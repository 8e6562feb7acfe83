#include "ops/rmsnorm.h"

namespace strata::ops {
namespace {

using program::DType;

template <typename Norm>
void VisitNorm(Norm& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("channels", op.channels);
}

template <typename Norm>
void VisitNormVariant(Norm& op, AttributeVisitor& visitor) {
  if (visitor.HasMore(op.plus_one || op.type != DType::kF32)) {
    visitor.Flag("plus_one", op.plus_one);
    visitor.Type("type", op.type);
  }
}

}  // namespace

void RmsNormForward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
  VisitNormVariant(*this, visitor);
}

OperandSpecs RmsNormForward::Operands() const {
  return {In("x", "[N, C]", rows * channels, type), In("w", "[C]", channels, type),
          Out("y", "[N, C]", rows * channels, type), Out("rstd", "[N]", rows)};
}

void AddRmsNormForward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
  VisitNormVariant(*this, visitor);
}

OperandSpecs AddRmsNormForward::Operands() const {
  const int64_t all = rows * channels;
  return {In("x", "[N, C]", all, type),   In("branch", "[N, C]", all, type),
          In("w", "[C]", channels, type), Out("sum", "[N, C]", all, type),
          Out("y", "[N, C]", all, type),  Out("rstd", "[N]", rows)};
}

void RmsNormReplay::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  VisitNormVariant(*this, visitor);
}

OperandSpecs RmsNormReplay::Operands() const {
  return {In("x", "[N, C]", rows * channels, type), In("w", "[C]", channels, type),
          In("rstd", "[N]", rows), Out("y", "[N, C]", rows * channels, type)};
}

void RmsNormBackward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Flag("accumulate", accumulate);
  if (visitor.HasMore(plus_one || frozen || type != DType::kF32)) {
    visitor.Flag("plus_one", plus_one);
    visitor.Flag("frozen", frozen);
    visitor.Type("type", type);
  }
}

OperandSpecs RmsNormBackward::Operands() const {
  const int64_t all = rows * channels;
  OperandSpecs operands = {
      In("dy", "[N, C]", all, type), In("x", "[N, C]", all, type), In("w", "[C]", channels, type),
      In("rstd", "[N]", rows),
      accumulate ? InOut("dx", "[N, C]", all, type) : Out("dx", "[N, C]", all, type)};
  if (!frozen) operands.push_back(InOut("dw", "[C]", channels));
  return operands;
}

int64_t RmsNormBackward::WorkspaceBytes(const Backend& backend) const {
  if (frozen) return 0;
  return Backend::Part(backend.NormParts(rows) * channels);
}

}  // namespace strata::ops
