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
}

}  // namespace

void EmbeddingForward::Visit(AttributeVisitor& visitor) { VisitBoth(*this, visitor); }

OperandSpecs EmbeddingForward::Operands() const {
  return {In("tokens", "[N]", rows, DType::kI32), In("table", "[V, C]", vocab * channels),
          Out("y", "[N, C]", rows * channels)};
}

double EmbeddingForward::BytesMoved() const {
  return 4.0 * static_cast<double>(rows + 2 * rows * channels);
}

void EmbeddingBackward::Visit(AttributeVisitor& visitor) { VisitBoth(*this, visitor); }

OperandSpecs EmbeddingBackward::Operands() const {
  return {In("tokens", "[N]", rows, DType::kI32), In("dy", "[N, C]", rows * channels),
          InOut("dtable", "[V, C]", vocab * channels)};
}

double EmbeddingBackward::BytesMoved() const {
  return 4.0 * static_cast<double>(rows + 3 * rows * channels);
}

}  // namespace strata::ops
