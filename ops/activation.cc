#include "ops/activation.h"

namespace strata::ops {
namespace {

void VisitFunction(AttributeVisitor& visitor, Function& function) {
  auto value = static_cast<int64_t>(function);
  visitor.Count("function", value);
  // What is none stays none: it is looked at after the types' limits were.
  function = static_cast<Function>(value < kFunctions ? value : kFunctions);
}

template <typename Op>
void VisitFfn(Op& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("ffn", op.ffn);
}

template <typename Op>
void VisitGated(Op& op, AttributeVisitor& visitor) {
  VisitFfn(op, visitor);
  if (visitor.HasMore(op.function != Function::kSilu || op.type != program::DType::kF32)) {
    VisitFunction(visitor, op.function);
    visitor.Type("type", op.type);
  }
}

template <typename Op>
void VisitAlone(Op& op, AttributeVisitor& visitor) {
  VisitFfn(op, visitor);
  VisitFunction(visitor, op.function);
  visitor.Type("type", op.type);
}

absl::Status RequireFunction(Function function) {
  return Require(static_cast<int64_t>(function) < kFunctions, "the function is none");
}

}  // namespace

void SwigluForward::Visit(AttributeVisitor& visitor) { VisitGated(*this, visitor); }
void SwigluBackward::Visit(AttributeVisitor& visitor) { VisitGated(*this, visitor); }
void Activate::Visit(AttributeVisitor& visitor) { VisitAlone(*this, visitor); }
void ActivateBackward::Visit(AttributeVisitor& visitor) { VisitAlone(*this, visitor); }

absl::Status SwigluForward::Validate() const { return RequireFunction(function); }
absl::Status SwigluBackward::Validate() const { return RequireFunction(function); }
absl::Status Activate::Validate() const { return RequireFunction(function); }
absl::Status ActivateBackward::Validate() const { return RequireFunction(function); }

OperandSpecs SwigluForward::Operands() const {
  return {In("gate_up", "[N, 2F]", rows * 2 * ffn, type), Out("h", "[N, F]", rows * ffn, type)};
}

OperandSpecs SwigluBackward::Operands() const {
  return {In("dh", "[N, F]", rows * ffn, type), In("gate_up", "[N, 2F]", rows * 2 * ffn, type),
          Out("dgate_up", "[N, 2F]", rows * 2 * ffn, type)};
}

OperandSpecs Activate::Operands() const {
  return {In("x", "[N, F]", rows * ffn, type), Out("h", "[N, F]", rows * ffn, type)};
}

OperandSpecs ActivateBackward::Operands() const {
  return {In("dh", "[N, F]", rows * ffn, type), In("x", "[N, F]", rows * ffn, type),
          Out("dx", "[N, F]", rows * ffn, type)};
}

}  // namespace strata::ops
