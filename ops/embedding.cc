#include "ops/embedding.h"

namespace strata::ops {
namespace {

using program::DType;

template <typename Embedding>
void VisitBoth(Embedding& op, AttributeVisitor& visitor) {
  visitor.Size("rows", op.rows);
  visitor.Size("vocab", op.vocab);
  visitor.Size("channels", op.channels);
  visitor.Of("group", op.group);
  if (visitor.HasMore(op.type != DType::kF32 || op.scale != 1 || op.whole != 0)) {
    visitor.Type("type", op.type);
    visitor.Number("scale", op.scale);
  }
  if (visitor.HasMore(op.whole != 0)) visitor.Count("whole", op.whole);
}

}  // namespace

void EmbeddingForward::Visit(AttributeVisitor& visitor) { VisitBoth(*this, visitor); }

OperandSpecs EmbeddingForward::Operands() const {
  return {In("tokens", "[N]", rows, DType::kI32), In("table", "[V, C]", vocab * channels, type),
          Out("y", "[N, C]", rows * channels, type)};
}

double EmbeddingForward::BytesMoved() const {
  return static_cast<double>(4 * rows + SizeOf(type) * 2 * rows * channels);
}

void EmbeddingBackward::Visit(AttributeVisitor& visitor) { VisitBoth(*this, visitor); }

OperandSpecs EmbeddingBackward::Operands() const {
  return {In("tokens", "[N]", rows, DType::kI32), In("dy", "[N, C]", rows * channels, type),
          InOut("dtable", "[V, C]", vocab * channels)};
}

double EmbeddingBackward::BytesMoved() const {
  return static_cast<double>(4 * rows + (SizeOf(type) + 8) * rows * channels);
}

}  // namespace strata::ops
