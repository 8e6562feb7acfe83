#include "ops/rmsnorm.h"

namespace strata::ops {
namespace {

template <typename Norm>
void VisitNorm(Norm& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("channels", op.channels);
}

}  // namespace

void RmsNormForward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
}

OperandSpecs RmsNormForward::Operands() const {
  return {In("x", "[N, C]", rows * channels), In("w", "[C]", channels),
          Out("y", "[N, C]", rows * channels), Out("rstd", "[N]", rows)};
}

void AddRmsNormForward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
}

OperandSpecs AddRmsNormForward::Operands() const {
  const int64_t all = rows * channels;
  return {In("x", "[N, C]", all),    In("branch", "[N, C]", all), In("w", "[C]", channels),
          Out("sum", "[N, C]", all), Out("y", "[N, C]", all),     Out("rstd", "[N]", rows)};
}

void RmsNormReplay::Visit(AttributeVisitor& visitor) { VisitNorm(*this, visitor); }

OperandSpecs RmsNormReplay::Operands() const {
  return {In("x", "[N, C]", rows * channels), In("w", "[C]", channels), In("rstd", "[N]", rows),
          Out("y", "[N, C]", rows * channels)};
}

void RmsNormBackward::Visit(AttributeVisitor& visitor) {
  VisitNorm(*this, visitor);
  visitor.Flag("accumulate", accumulate);
}

OperandSpecs RmsNormBackward::Operands() const {
  const int64_t all = rows * channels;
  return {In("dy", "[N, C]", all),
          In("x", "[N, C]", all),
          In("w", "[C]", channels),
          In("rstd", "[N]", rows),
          accumulate ? InOut("dx", "[N, C]", all) : Out("dx", "[N, C]", all),
          InOut("dw", "[C]", channels)};
}

int64_t RmsNormBackward::WorkspaceBytes(const Backend& backend) const {
  return Backend::Part(common::CeilDivide(rows, backend.norm_rows) * channels);
}

}  // namespace strata::ops
