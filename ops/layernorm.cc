#include "ops/layernorm.h"

namespace strata::ops {
namespace {

template <typename Norm>
void VisitLayerNorm(Norm& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("channels", op.channels);
}

}  // namespace

void LayerNormForward::Visit(AttributeVisitor& visitor) {
  VisitLayerNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
  visitor.Type("type", type);
}

OperandSpecs LayerNormForward::Operands() const {
  return {In("x", "[N, C]", rows * channels, type), In("w", "[C]", channels, type),
          In("b", "[C]", channels, type), Out("y", "[N, C]", rows * channels, type),
          Out("statistics", "[N, 2]", rows * 2)};
}

void AddLayerNormForward::Visit(AttributeVisitor& visitor) {
  VisitLayerNorm(*this, visitor);
  visitor.Number("epsilon", epsilon);
  visitor.Type("type", type);
}

OperandSpecs AddLayerNormForward::Operands() const {
  const int64_t all = rows * channels;
  return {In("x", "[N, C]", all, type),         In("branch", "[N, C]", all, type),
          In("w", "[C]", channels, type),       In("b", "[C]", channels, type),
          Out("sum", "[N, C]", all, type),      Out("y", "[N, C]", all, type),
          Out("statistics", "[N, 2]", rows * 2)};
}

void LayerNormReplay::Visit(AttributeVisitor& visitor) {
  VisitLayerNorm(*this, visitor);
  visitor.Type("type", type);
}

OperandSpecs LayerNormReplay::Operands() const {
  return {In("x", "[N, C]", rows * channels, type), In("w", "[C]", channels, type),
          In("b", "[C]", channels, type), In("statistics", "[N, 2]", rows * 2),
          Out("y", "[N, C]", rows * channels, type)};
}

void LayerNormBackward::Visit(AttributeVisitor& visitor) {
  VisitLayerNorm(*this, visitor);
  visitor.Flag("accumulate", accumulate);
  visitor.Flag("frozen", frozen);
  visitor.Type("type", type);
}

OperandSpecs LayerNormBackward::Operands() const {
  const int64_t all = rows * channels;
  OperandSpecs operands = {
      In("dy", "[N, C]", all, type), In("x", "[N, C]", all, type), In("w", "[C]", channels, type),
      In("statistics", "[N, 2]", rows * 2),
      accumulate ? InOut("dx", "[N, C]", all, type) : Out("dx", "[N, C]", all, type)};
  if (frozen) return operands;
  operands.push_back(InOut("dw", "[C]", channels));
  operands.push_back(InOut("db", "[C]", channels));
  return operands;
}

int64_t LayerNormBackward::WorkspaceBytes(const Backend& backend) const {
  if (frozen) return 0;
  return Backend::Part(backend.NormParts(rows) * 2 * channels);
}

}  // namespace strata::ops
