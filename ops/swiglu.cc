#include "ops/swiglu.h"

namespace strata::ops {

void SwigluForward::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("ffn", ffn);
}

OperandSpecs SwigluForward::Operands() const {
  return {In("gate_up", "[N, 2F]", rows * 2 * ffn), Out("h", "[N, F]", rows * ffn)};
}

void SwigluBackward::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("ffn", ffn);
}

OperandSpecs SwigluBackward::Operands() const {
  return {In("dh", "[N, F]", rows * ffn), In("gate_up", "[N, 2F]", rows * 2 * ffn),
          Out("dgate_up", "[N, 2F]", rows * 2 * ffn)};
}

}  // namespace strata::ops
