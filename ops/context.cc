#include "ops/context.h"

namespace strata::ops {
namespace {

// Behind an op's other attributes.
// The operand that a first step writes and the others add to.
OperandSpec Running(const ContextPart& part, const char* name, const char* shape, int64_t elements,
                    program::DType type) {
  return part.first() ? Out(name, shape, elements, type) : InOut(name, shape, elements, type);
}

OperandSpecs WithPositions(const ContextPart& part, OperandSpecs operands) {
  if (part.documents) {
    operands.push_back(In("positions", "[N]", part.held.rows(), program::DType::kI32));
  }
  return operands;
}

int64_t OutElements(const AttentionShape& held) {
  return held.rows() * held.heads * held.head_size;
}

}  // namespace

void ContextPart::Visit(AttributeVisitor& visitor) {
  held.Visit(visitor);
  visitor.Size("ranks", ranks);
  visitor.Count("step", step);
  visitor.Flag("gathered", gathered);
  held.VisitMore(visitor, documents);
}

absl::Status ContextPart::Validate() const {
  if (absl::Status status = held.Validate(); !status.ok()) return status;
  if (held.sequence % 2 != 0) return Require(false, "the rows are not two equal blocks");
  if (gathered && step > 0) return Require(false, "what is gathered has no steps");
  return Require(step < ranks, "a ring has fewer steps than ranks");
}

ContextPart ContextPart::OfExample() {
  return {.held = {.batch = 2, .sequence = 4, .heads = 4, .kv_heads = 2, .head_size = 6},
          .ranks = 3,
          .step = 1,
          .documents = true};
}

OperandSpecs AttentionPart::Operands() const {
  const AttentionShape& held = part.held;
  return WithPositions(
      part, {In("qkv", "[N, (H + 2K)·D]", held.rows() * held.qkv_width(), held.type),
             In("kv", "[ranks seen, N, 2K·D]", part.kv_elements(), held.type),
             Running(part, "out", "[N, H·D]", OutElements(held), held.type),
             Running(part, "lse", "[B, H, T]", held.rows() * held.heads, program::DType::kF32)});
}

double AttentionPart::Flops() const {
  return static_cast<double>(part.members()) * MeanPartFlops(part.held, part.ranks);
}

int64_t AttentionPart::WorkspaceBytes(const Backend& backend) const {
  return AttentionForward{part.held}.WorkspaceBytes(backend);
}

OperandSpecs AttentionPartBackward::Operands() const {
  const AttentionShape& held = part.held;
  const int64_t lse = held.rows() * held.heads, qkv = held.rows() * held.qkv_width();
  return WithPositions(part, {In("dout", "[N, H·D]", OutElements(held), held.type),
                              In("qkv", "[N, (H + 2K)·D]", qkv, held.type),
                              In("kv", "[ranks seen, N, 2K·D]", part.kv_elements(), held.type),
                              In("lse", "[B, H, T]", lse), In("delta", "[B, H, T]", lse),
                              Running(part, "dqkv", "[N, (H + 2K)·D]", qkv, held.type),
                              Out("dkv", "[ranks seen, N, 2K·D]", part.kv_elements(), held.type)});
}

double AttentionPartBackward::Flops() const {
  return 2.5 * static_cast<double>(part.members()) * MeanPartFlops(part.held, part.ranks);
}

int64_t AttentionPartBackward::WorkspaceBytes(const Backend& backend) const {
  if (backend.on_cuda()) return 0;
  return AttentionBackward{part.held}.WorkspaceBytes(backend);
}

void AttentionDelta::Visit(AttributeVisitor& visitor) {
  visitor.Size("batch", batch);
  visitor.Size("sequence", sequence);
  visitor.Size("heads", heads);
  visitor.Size("head_size", head_size);
  VisitType(visitor, type);
}

OperandSpecs AttentionDelta::Operands() const {
  const int64_t delta = batch * sequence * heads;
  return {In("dout", "[N, H·D]", delta * head_size, type),
          In("out", "[N, H·D]", delta * head_size, type), Out("delta", "[B, H, T]", delta)};
}

AttentionDelta AttentionDelta::Example() {
  return {.batch = 2, .sequence = 3, .heads = 4, .head_size = 6};
}

void MoveBlocks::Visit(AttributeVisitor& visitor) {
  visitor.Size("blocks", blocks);
  visitor.Size("rows", rows);
  visitor.Size("width", width);
  visitor.Count("from_block", from_block);
  visitor.Size("from_row", from_row);
  visitor.Count("to_block", to_block);
  visitor.Size("to_row", to_row);
  visitor.Flag("keeps", keeps);
  visitor.Flag("adds", adds);
  VisitType(visitor, type);
}

OperandSpecs MoveBlocks::Operands() const {
  const auto extent = [this](int64_t block, int64_t row) {
    return (blocks - 1) * block + (rows - 1) * row + width;
  };
  const int64_t written = extent(to_block, to_row);
  constexpr const char* kShape = "[blocks, rows, width] in strides";
  const OperandSpec to =
      keeps || adds ? InOut("to", kShape, written, type) : Out("to", kShape, written, type);
  return {In("from", kShape, extent(from_block, from_row), type).OrMore(), to.OrMore()};
}

double MoveBlocks::BytesMoved() const {
  return static_cast<double>(program::BytesOf(type, blocks * rows * width)) * (adds ? 3 : 2);
}

MoveBlocks MoveBlocks::Example() {
  return {.blocks = 2,
          .rows = 3,
          .width = 4,
          .from_block = 4,
          .from_row = 9,
          .to_block = 12,
          .to_row = 4,
          .keeps = true};
}

void OrderRows::Visit(AttributeVisitor& visitor) {
  visitor.Size("batch", batch);
  visitor.Size("ranks", ranks);
  visitor.Size("rows", rows);
  visitor.Size("width", width);
  visitor.Size("stride", stride);
  visitor.Flag("inverse", inverse);
  VisitType(visitor, type);
}

absl::Status OrderRows::Validate() const {
  const int64_t of_rank = batch * rows * width;
  if (rows % 2 != 0) return Require(false, "the rows are not two equal blocks");
  return Require(inverse ? stride == of_rank : stride >= of_rank, "ranks overlap or lie apart");
}

OperandSpecs OrderRows::Operands() const {
  const int64_t of_rank = batch * rows * width, all = ranks * of_rank;
  const int64_t reach = (ranks - 1) * stride + of_rank;
  constexpr const char* kRanked = "[ranks, B, T / ranks, width] in strides";
  constexpr const char* kOrdered = "[B, T, width]";
  if (inverse) return {Out("ranked", kRanked, reach, type), In("ordered", kOrdered, all, type)};
  return {In("ranked", kRanked, reach, type).OrMore(), Out("ordered", kOrdered, all, type)};
}

OrderRows OrderRows::Example() {
  return {.batch = 2, .ranks = 3, .rows = 4, .width = 5, .stride = 40};
}

}  // namespace strata::ops
