#include "ops/headnorm.h"

namespace strata::ops {
namespace {

constexpr const char* kPacked = "[N, (H + 2K)·D]";

OperandSpec Weight(const char* name, const HeadNormShape& shape) {
  return In(name, "[D]", shape.head_size, shape.type);
}

}  // namespace

void HeadNormShape::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("heads", heads);
  visitor.Size("kv_heads", kv_heads);
  visitor.Size("head_size", head_size);
  visitor.Flag("plus_one", plus_one);
  visitor.Type("type", type);
}

void HeadNormForward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  visitor.Number("epsilon", epsilon);
}

OperandSpecs HeadNormForward::Operands() const {
  return {In("qkv", kPacked, shape.elements(), shape.type), Weight("wq", shape),
          Weight("wk", shape), Out("out", kPacked, shape.elements(), shape.type),
          Out("rstd", "[N, H + K]", shape.norms())};
}

OperandSpecs HeadNormReplay::Operands() const {
  return {In("qkv", kPacked, shape.elements(), shape.type), Weight("wq", shape),
          Weight("wk", shape), In("rstd", "[N, H + K]", shape.norms()),
          Out("out", kPacked, shape.elements(), shape.type)};
}

void HeadNormBackward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  visitor.Flag("frozen", frozen);
}

OperandSpecs HeadNormBackward::Operands() const {
  OperandSpecs operands = {In("dout", kPacked, shape.elements(), shape.type),
                           In("qkv", kPacked, shape.elements(), shape.type),
                           Weight("wq", shape),
                           Weight("wk", shape),
                           In("rstd", "[N, H + K]", shape.norms()),
                           Out("dqkv", kPacked, shape.elements(), shape.type)};
  if (frozen) return operands;
  operands.push_back(InOut("dwq", "[D]", shape.head_size));
  operands.push_back(InOut("dwk", "[D]", shape.head_size));
  return operands;
}

int64_t HeadNormBackward::WorkspaceBytes(const Backend& backend) const {
  if (frozen) return 0;
  return Backend::Part(backend.NormParts(shape.rows) * 2 * shape.head_size);
}

}  // namespace strata::ops
