#include "kernels/matmul.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/tiles_work.h"
#include "kernels/isa.h"

namespace strata::kernels {
namespace {

// From here on a product is deep: towards the hidden states of a large vocabulary, for one.
constexpr int64_t kDeep = 8192;

// What kAuto takes where there are many rows. The library is slow where a is transposed, as in
// gradients of weights, and where products are deep: it multiplies f32 there at 0.6 to 0.9 of our
// own product's rate.
MatmulBackend BestBackend(const MatmulShape& shape) {
  if (SuitsTileMatmul(shape) && TilesWork()) return MatmulBackend::kTiles;
  const bool f32 = shape.type == NumberType::kF32 && !shape.trans_a && shape.k < kDeep;
  const bool library =
      UsesAvx512() && (f32 || (shape.type == NumberType::kBF16 && BFloat16Works()));
  return library ? MatmulBackend::kOneDnn : MatmulBackend::kOwn;
}

}  // namespace

absl::StatusOr<MatmulShape> CompleteShape(MatmulShape shape) {
  if (shape.m < 1 || shape.n < 1 || shape.k < 1) {
    return absl::InvalidArgumentError(absl::StrCat("matrix product of ", shape.m, " x ", shape.k,
                                                   " and ", shape.k, " x ", shape.n,
                                                   ": every size must be at least 1"));
  }
  const int64_t a_columns = shape.trans_a ? shape.m : shape.k;
  const int64_t b_columns = shape.trans_b ? shape.k : shape.n;
  if (shape.lda == 0) shape.lda = a_columns;
  if (shape.ldb == 0) shape.ldb = b_columns;
  if (shape.ldc == 0) shape.ldc = shape.n;
  if (shape.lda < a_columns || shape.ldb < b_columns || shape.ldc < shape.n) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product: row distances ", shape.lda, ", ", shape.ldb, ", ", shape.ldc,
                     " are below the rows' lengths ", a_columns, ", ", b_columns, ", ", shape.n));
  }
  if (shape.out_type != shape.type && shape.out_type != NumberType::kF32) {
    return absl::InvalidArgumentError(
        "matrix product: c is neither of the factors' type nor of f32");
  }
  return shape;
}

int64_t MatmulWorkspaceBytes(const MatmulShape& shape, int threads) {
  return std::max(OwnMatmulWorkspaceBytes(shape), kOneDnnScratchBytes * threads);
}

absl::StatusOr<MatmulPlan> MatmulPlan::Create(const MatmulShape& shape, int threads,
                                              MatmulBackend backend) {
  const absl::StatusOr<MatmulShape> complete = CompleteShape(shape);
  if (!complete.ok()) return complete.status();
  const bool automatic = backend == MatmulBackend::kAuto;
  if (backend != MatmulBackend::kOneDnn && SuitsRowsMatmul(*complete)) {
    return MatmulPlan(MakeRowsMatmul(*complete));
  }
  if (automatic) {
    backend = BestBackend(*complete);
  }
  if (backend == MatmulBackend::kTiles) {
    if (SuitsTileMatmul(*complete) && TilesWork()) {
      return MatmulPlan(MakeTileMatmul(*complete, threads));
    }
    return absl::FailedPreconditionError(
        "matrix product by tiles: of bf16 and some size, on a CPU whose AMX works");
  }
  if (backend == MatmulBackend::kOneDnn) {
    auto made = MakeOneDnnMatmul(*complete, threads);
    if (made.ok()) return MatmulPlan(*std::move(made));
    if (!automatic) return made.status();
  }
  return MatmulPlan(MakeOwnMatmul(*complete));
}

MatmulPlan::MatmulPlan(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;
MatmulPlan& MatmulPlan::operator=(MatmulPlan&&) noexcept = default;
MatmulPlan::~MatmulPlan() = default;

void MatmulPlan::Run(const Context& context, const void* a, const void* b, void* c,
                     void* workspace) const {
  implementation_->Run(context, a, b, c, workspace);
}

const MatmulShape& MatmulPlan::shape() const { return implementation_->shape(); }
MatmulBackend MatmulPlan::backend() const { return implementation_->backend(); }

}  // namespace strata::kernels
