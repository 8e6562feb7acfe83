#include "ops/attention.h"

#include <algorithm>

namespace strata::ops {
namespace {

using common::RoundUp;
using program::Access;
using program::Scalar;

constexpr AttentionShape kExample = {
    .batch = 2, .sequence = 3, .heads = 4, .kv_heads = 2, .head_size = 6};

void VisitHeads(AttributeVisitor& visitor, int64_t& heads, int64_t& kv_heads, int64_t& head_size) {
  visitor.Size("heads", heads);
  visitor.Size("kv_heads", kv_heads);
  visitor.Size("head_size", head_size);
}

absl::Status RequireGroups(int64_t heads, int64_t kv_heads) {
  return Require(heads % kv_heads == 0, "kv_heads does not divide heads");
}

double ForwardFlops(const AttentionShape& shape) {
  const double sequence = static_cast<double>(shape.sequence);
  return 2.0 * static_cast<double>(shape.batch * shape.heads * shape.head_size) * sequence *
         sequence;
}

// Places of rows inside their documents.
OperandSpec Positions(int64_t rows) { return In("positions", "[N]", rows, program::DType::kI32); }

// Sizes of tiles; padded as kernels pad them.
struct Tiles {
  int64_t rows;   // of queries
  int64_t width;  // of a head

  Tiles(const Backend& backend, int64_t query_rows, int64_t group, int64_t head_size)
      : rows(RoundUp(std::max(query_rows, group), backend.tile_rows)),
        width(RoundUp(head_size, backend.tile_columns)) {}
};

int64_t ForwardBytes(const Backend& backend, int64_t group, int64_t head_size) {
  const Tiles tiles(backend, backend.attention_forward_rows, group, head_size);
  const int64_t per_thread = 2 * Backend::Part(backend.attention_keys * tiles.width) +
                             2 * Backend::Part(tiles.rows * tiles.width) +
                             2 * Backend::Part(tiles.rows + backend.lanes) +
                             Backend::Part(backend.tile_rows * backend.attention_keys);
  return per_thread * backend.threads;
}

}  // namespace

void AttentionShape::Visit(AttributeVisitor& visitor) {
  visitor.Size("batch", batch);
  visitor.Size("sequence", sequence);
  VisitHeads(visitor, heads, kv_heads, head_size);
}

absl::Status AttentionShape::Validate() const { return RequireGroups(heads, kv_heads); }

AttentionForward AttentionForward::Example() { return {kExample, true}; }
AttentionBackward AttentionBackward::Example() { return {kExample, true}; }
AttentionDecode AttentionDecode::Example() {
  return {.rows = 2, .context = 5, .heads = 4, .kv_heads = 2, .head_size = 6};
}

void AttentionForward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  visitor.Option("documents", documents);
}

absl::Status AttentionForward::Validate() const { return shape.Validate(); }

OperandSpecs AttentionForward::Operands() const {
  OperandSpecs operands = {In("qkv", "[N, (H + 2K)·D]", shape.rows() * shape.qkv_width()),
                           Out("out", "[N, H·D]", shape.rows() * shape.heads * shape.head_size),
                           Out("lse", "[B, H, T]", shape.rows() * shape.heads)};
  if (documents) operands.push_back(Positions(shape.rows()));
  return operands;
}

double AttentionForward::Flops() const { return ForwardFlops(shape); }

int64_t AttentionForward::WorkspaceBytes(const Backend& backend) const {
  return ForwardBytes(backend, shape.heads / shape.kv_heads, shape.head_size);
}

void AttentionBackward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  visitor.Option("documents", documents);
}

absl::Status AttentionBackward::Validate() const { return shape.Validate(); }

OperandSpecs AttentionBackward::Operands() const {
  const int64_t qkv = shape.rows() * shape.qkv_width();
  const int64_t out = shape.rows() * shape.heads * shape.head_size;
  OperandSpecs operands = {
      In("dout", "[N, H·D]", out), In("qkv", "[N, (H + 2K)·D]", qkv), In("out", "[N, H·D]", out),
      In("lse", "[B, H, T]", shape.rows() * shape.heads), Out("dqkv", "[N, (H + 2K)·D]", qkv)};
  if (documents) operands.push_back(Positions(shape.rows()));
  return operands;
}

double AttentionBackward::Flops() const { return 2.5 * ForwardFlops(shape); }

int64_t AttentionBackward::WorkspaceBytes(const Backend& backend) const {
  const Tiles tiles(backend, backend.attention_backward_rows, shape.heads / shape.kv_heads,
                    shape.head_size);
  const int64_t per_thread = 5 * Backend::Part(backend.attention_keys * tiles.width) +
                             2 * Backend::Part(tiles.rows * tiles.width) +
                             2 * Backend::Part(tiles.rows * backend.attention_keys) +
                             Backend::Part(backend.tile_rows * tiles.width);
  return Backend::Part(shape.rows() * shape.heads) + per_thread * backend.threads;
}

void AttentionDecode::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("context", context);
  VisitHeads(visitor, heads, kv_heads, head_size);
}

absl::Status AttentionDecode::Validate() const { return RequireGroups(heads, kv_heads); }

OperandSpecs AttentionDecode::Operands() const {
  const int64_t cache = context * kv_heads * head_size;
  return {In("qkv", "[T, (H + 2K)·D]", rows * (heads + 2 * kv_heads) * head_size),
          InOut("k_cache", "[context, K·D]", cache), InOut("v_cache", "[context, K·D]", cache),
          Scalars("scalars", "kPosition, kValidTokens", Access::kRead, Scalar::kPosition,
                  Scalar::kValidTokens),
          Out("out", "[T, H·D]", rows * heads * head_size)};
}

double AttentionDecode::Flops() const {
  return 4.0 * static_cast<double>(rows) * static_cast<double>(context) *
         static_cast<double>(heads * head_size);
}

double AttentionDecode::BytesMoved() const {
  const int64_t chunk = rows * (2 * heads + 4 * kv_heads) * head_size;
  return 4.0 * static_cast<double>(chunk + 2 * context * kv_heads * head_size);
}

int64_t AttentionDecode::WorkspaceBytes(const Backend& backend) const {
  return ForwardBytes(backend, heads / kv_heads, head_size);
}

}  // namespace strata::ops
