#include "ops/matmul.h"

#include <algorithm>

namespace strata::ops {
namespace {

// Elements that a stored [rows, columns] takes when rows are `distance` apart.
int64_t Stored(int64_t rows, int64_t columns, int64_t distance) {
  return distance == 0 ? rows * columns : (rows - 1) * distance + columns;
}

}  // namespace

void MatMul::Visit(AttributeVisitor& visitor) {
  visitor.Size("m", m);
  visitor.Size("n", n);
  visitor.Size("k", k);
  visitor.Flag("trans_a", trans_a);
  visitor.Flag("trans_b", trans_b);
  visitor.Flag("accumulate", accumulate);
  visitor.Count("lda", lda);
  visitor.Count("ldb", ldb);
  visitor.Count("ldc", ldc);
  if (!visitor.HasMore(type != program::DType::kF32)) return;
  visitor.Type("type", type);
  visitor.Type("out_type", out_type);
}

absl::Status MatMul::Validate() const {
  const auto fits = [](int64_t distance, int64_t columns) {
    return distance == 0 || distance >= columns;
  };
  if (out_type != type && out_type != program::DType::kF32) {
    return Require(false, "the product is neither of the factors' type nor f32");
  }
  return Require(fits(lda, trans_a ? m : k) && fits(ldb, trans_b ? k : n) && fits(ldc, n),
                 "a row distance is shorter than its row");
}

OperandSpecs MatMul::Operands() const {
  const OperandSpec c = Out("c", "[m, n]", Stored(m, n, ldc), out_type);
  const OperandSpec added = InOut("c", "[m, n]", Stored(m, n, ldc), out_type);
  return {In("a", "[m, k]", trans_a ? Stored(k, m, lda) : Stored(m, k, lda), type),
          In("b", "[k, n]", trans_b ? Stored(n, k, ldb) : Stored(k, n, ldb), type),
          accumulate ? added : c};
}

double MatMul::Flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

int64_t MatMul::WorkspaceBytes(const Backend& backend) const {
  using common::RoundUp;
  if (backend.on_cuda()) return backend.cuda_product_bytes + backend.cuda_alignment_bytes;
  // A product of 16 bits is summed apart where there is more than one block of k.
  const bool apart = out_type != program::DType::kF32 && k > backend.block_depth;
  const int64_t part = apart ? 2 : 1;
  const int64_t rows = RoundUp(std::min(m, backend.block_rows / part), backend.tile_rows);
  const int64_t columns = RoundUp(std::min(n, backend.block_columns / part), backend.tile_columns);
  const int64_t depth = RoundUp(std::min(k, backend.block_depth), backend.lanes);
  return std::max(Backend::Part((rows + columns) * depth + (apart ? rows * columns : 0)),
                  backend.library_bytes * backend.threads);
}

}  // namespace strata::ops
