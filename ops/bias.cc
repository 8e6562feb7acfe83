#include "ops/bias.h"

namespace strata::ops {
namespace {

template <typename Op>
void VisitMatrix(Op& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("width", op.width);
  visitor.Type("type", op.type);
}

}  // namespace

void AddBias::Visit(AttributeVisitor& visitor) { VisitMatrix(*this, visitor); }

OperandSpecs AddBias::Operands() const {
  return {InOut("y", "[N, W]", rows * width, type), In("b", "[W]", width, type)};
}

void BiasGradient::Visit(AttributeVisitor& visitor) { VisitMatrix(*this, visitor); }

OperandSpecs BiasGradient::Operands() const {
  return {In("dy", "[N, W]", rows * width, type), InOut("db", "[W]", width)};
}

int64_t BiasGradient::WorkspaceBytes(const Backend& backend) const {
  const int64_t parts = backend.on_cuda()
                            ? std::clamp<int64_t>(common::CeilDivide(rows, backend.cuda_bias_rows),
                                                  1, backend.cuda_bias_parts)
                            : common::CeilDivide(rows, backend.norm_rows);
  return Backend::Part(parts * width);
}

}  // namespace strata::ops
