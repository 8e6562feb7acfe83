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

// Pairs of a row and one that it sees, half of those on the edges: T²/2 when all see all before.
double Pairs(int64_t sequence, int64_t window) {
  const double rows = static_cast<double>(sequence);
  const double seen = window == 0 ? rows : static_cast<double>(std::min(window, sequence));
  return seen * (rows - seen / 2);
}

double ForwardFlops(const AttentionShape& shape) {
  return 4.0 * static_cast<double>(shape.batch * shape.heads * shape.head_size) *
         Pairs(shape.sequence, shape.scores.window);
}

// Behind an op's other attributes.
void VisitScores(AttributeVisitor& visitor, AttentionScores& scores, program::DType& type) {
  visitor.Count("window", scores.window);
  visitor.Type("type", type);
  visitor.Number("softcap", scores.softcap);
  visitor.Number("scale", scores.scale);
}

// Places of rows inside their documents.
OperandSpec Positions(int64_t rows) { return In("positions", "[N]", rows, program::DType::kI32); }

// Sizes of tiles; padded as kernels pad them.
struct Tiles {
  int64_t rows;  // of queries
  int64_t keys;
  int64_t width;  // of a head

  Tiles(const Backend& backend, int64_t query_rows, int64_t group, int64_t head_size)
      : width(RoundUp(head_size, backend.tile_columns)) {
    const int64_t most = width <= backend.attention_narrow_head ? query_rows : query_rows / 2;
    rows = RoundUp(std::max(most, group), backend.attention_block_rows);
    keys = width <= 2 * backend.attention_narrow_head
               ? backend.attention_keys
               : RoundUp(backend.attention_keys / 2, backend.tile_columns);
  }
};

int64_t ForwardBytes(const Backend& backend, int64_t group, int64_t head_size) {
  if (backend.on_cuda()) return 0;
  const Tiles tiles(backend, backend.attention_forward_rows, group, head_size);
  const int64_t per_thread = 2 * Backend::Part(tiles.keys * tiles.width) +
                             2 * Backend::Part(tiles.rows * tiles.width) +
                             4 * Backend::Part(tiles.rows + backend.lanes) +
                             Backend::Part(backend.attention_block_rows * backend.attention_keys);
  return per_thread * backend.threads;
}

}  // namespace

void AttentionShape::Visit(AttributeVisitor& visitor) {
  visitor.Size("batch", batch);
  visitor.Size("sequence", sequence);
  VisitHeads(visitor, heads, kv_heads, head_size);
}

void AttentionShape::VisitMore(AttributeVisitor& visitor, bool& documents) {
  if (!visitor.HasMore(documents || !scores.plain() || type != program::DType::kF32)) return;
  visitor.Flag("documents", documents);
  VisitScores(visitor, scores, type);
}

absl::Status AttentionScores::Validate() const {
  return Require(softcap >= 0 && scale >= 0, "softcap or scale is negative");
}

absl::Status AttentionShape::Validate() const {
  if (absl::Status status = scores.Validate(); !status.ok()) return status;
  return RequireGroups(heads, kv_heads);
}

double MeanPartFlops(const AttentionShape& held, int64_t ranks) {
  AttentionShape whole = held;
  whole.sequence *= ranks;
  return ForwardFlops(whole) / static_cast<double>(ranks * ranks);
}

AttentionForward AttentionForward::Example() { return {kExample, true}; }
AttentionBackward AttentionBackward::Example() { return {kExample, true}; }
AttentionDecode AttentionDecode::Example() {
  return {.rows = 2, .context = 5, .heads = 4, .kv_heads = 2, .head_size = 6};
}

void AttentionForward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  shape.VisitMore(visitor, documents);
}

absl::Status AttentionForward::Validate() const { return shape.Validate(); }

OperandSpecs AttentionForward::Operands() const {
  const int64_t out = shape.rows() * shape.heads * shape.head_size;
  OperandSpecs operands = {
      In("qkv", "[N, (H + 2K)·D]", shape.rows() * shape.qkv_width(), shape.type),
      Out("out", "[N, H·D]", out, shape.type), Out("lse", "[B, H, T]", shape.rows() * shape.heads)};
  if (documents) operands.push_back(Positions(shape.rows()));
  return operands;
}

double AttentionForward::Flops() const { return ForwardFlops(shape); }

int64_t AttentionForward::WorkspaceBytes(const Backend& backend) const {
  return ForwardBytes(backend, shape.heads / shape.kv_heads, shape.head_size);
}

void AttentionBackward::Visit(AttributeVisitor& visitor) {
  shape.Visit(visitor);
  shape.VisitMore(visitor, documents);
}

absl::Status AttentionBackward::Validate() const { return shape.Validate(); }

OperandSpecs AttentionBackward::Operands() const {
  const int64_t qkv = shape.rows() * shape.qkv_width();
  const int64_t out = shape.rows() * shape.heads * shape.head_size;
  OperandSpecs operands = {
      In("dout", "[N, H·D]", out, shape.type), In("qkv", "[N, (H + 2K)·D]", qkv, shape.type),
      In("out", "[N, H·D]", out, shape.type), In("lse", "[B, H, T]", shape.rows() * shape.heads),
      Out("dqkv", "[N, (H + 2K)·D]", qkv, shape.type)};
  if (documents) operands.push_back(Positions(shape.rows()));
  return operands;
}

double AttentionBackward::Flops() const { return 2.5 * ForwardFlops(shape); }

int64_t AttentionBackward::WorkspaceBytes(const Backend& backend) const {
  // A number per row and head: Σ dout · out.
  const int64_t group = shape.heads / shape.kv_heads, deltas = shape.rows() * shape.heads;
  if (backend.on_cuda()) {
    // Gradients of keys and values by parts of their queries' heads, where there are few tiles.
    constexpr int64_t kTileKeys = 64, kEnoughTiles = 512;
    const int64_t tiles =
        shape.batch * shape.kv_heads * common::CeilDivide(shape.sequence, kTileKeys);
    const int64_t parts = std::min(common::CeilDivide(kEnoughTiles, tiles), group);
    const int64_t kv_width = 2 * shape.kv_heads * shape.head_size;
    return Backend::Part(deltas + (parts > 1 ? parts * shape.rows() * kv_width : 0));
  }
  const Tiles tiles(backend, backend.attention_backward_rows, group, shape.head_size);
  const bool apart = shape.type != program::DType::kF32;
  const int64_t per_thread = 5 * Backend::Part(tiles.keys * tiles.width) +
                             4 * Backend::Part(tiles.rows * tiles.width) +
                             2 * Backend::Part(tiles.rows * backend.attention_keys) +
                             Backend::Part(backend.attention_block_rows * tiles.width) +
                             (apart ? Backend::Part(shape.sequence * group * tiles.width) : 0);
  return Backend::Part(deltas) + per_thread * backend.threads;
}

void AttentionDecode::Visit(AttributeVisitor& visitor) {
  visitor.Size("rows", rows);
  visitor.Size("context", context);
  VisitHeads(visitor, heads, kv_heads, head_size);
  if (!visitor.HasMore(!scores.plain() || type != program::DType::kF32)) return;
  VisitScores(visitor, scores, type);
}

absl::Status AttentionDecode::Validate() const {
  if (absl::Status status = scores.Validate(); !status.ok()) return status;
  return RequireGroups(heads, kv_heads);
}

OperandSpecs AttentionDecode::Operands() const {
  const int64_t cache = context * kv_heads * head_size;
  return {In("qkv", "[T, (H + 2K)·D]", rows * (heads + 2 * kv_heads) * head_size, type),
          InOut("k_cache", "[context, K·D]", cache, type),
          InOut("v_cache", "[context, K·D]", cache, type),
          Scalars("scalars", "kPosition, kValidTokens", Access::kRead, Scalar::kPosition,
                  Scalar::kValidTokens),
          Out("out", "[T, H·D]", rows * heads * head_size, type)};
}

double AttentionDecode::Flops() const {
  const int64_t seen = scores.window == 0 ? context : std::min(scores.window, context);
  return 4.0 * static_cast<double>(rows) * static_cast<double>(seen) *
         static_cast<double>(heads * head_size);
}

double AttentionDecode::BytesMoved() const {
  const int64_t chunk = rows * (2 * heads + 4 * kv_heads) * head_size;
  const int64_t seen = scores.window == 0 ? context : std::min(scores.window + rows, context);
  return static_cast<double>(program::BytesOf(type, chunk + 2 * seen * kv_heads * head_size));
}

int64_t AttentionDecode::WorkspaceBytes(const Backend& backend) const {
  return ForwardBytes(backend, heads / kv_heads, head_size);
}

}  // namespace strata::ops
