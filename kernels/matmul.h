// Matrix product c = op(a) op(b), or c += op(a) op(b), where op is the identity or the transpose.
//
// A MatmulPlan is made once per shape when a program is loaded; running it allocates nothing of our
// own. Three implementations: oneDNN's matmul on tiles of M x N (one thread per tile, K never
// split) where the CPU has AVX-512; our own AVX2 product elsewhere and for a few rows, after Goto
// and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008; and,
// blocked in the same way, our own of bf16 by AMX.
//
// Factors may be numbers of 16 bits: our own product makes them f32 while it packs them, AMX and
// oneDNN multiply bf16 where the CPU has instructions for it that work. Sums are f32 in any case; c
// is rounded once.
#ifndef STRATA_KERNELS_MATMUL_H_
#define STRATA_KERNELS_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;  // op(a) is [m, k], op(b) [k, n], c [m, n]; all at least 1
  bool trans_a = false;         // a is stored [k, m]
  bool trans_b = false;         // b is stored [n, k]
  // Distance between stored rows, in elements; 0 means dense.
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;
  NumberType type = NumberType::kF32;      // of a and b
  NumberType out_type = NumberType::kF32;  // of c: that of a and b, or f32
};

// With the distances filled in. INVALID_ARGUMENT: impossible.
absl::StatusOr<MatmulShape> CompleteShape(MatmulShape shape);

enum class MatmulBackend {
  kAuto,    // bf16: by tiles, or else oneDNN where BFloat16Works(); f32: oneDNN with AVX-512 unless
            // there are few rows or a is transposed; else our own
  kOwn,     // any CPU with AVX2
  kOneDnn,  // any CPU; not f16
  kTiles,   // bf16, where AmxWorks(): not few rows or columns
};

// An upper bound of what a plan of this shape needs with any backend, for `threads` threads. A few
// MiB whatever the shape.
int64_t MatmulWorkspaceBytes(const MatmulShape& shape, int threads);

class MatmulPlan {
 public:
  // INVALID_ARGUMENT for impossible shapes, FAILED_PRECONDITION when kOneDnn or kTiles was asked
  // for and cannot run the shape (within MatmulWorkspaceBytes). `threads`
  // is the size of the pool that Run will be given.
  static absl::StatusOr<MatmulPlan> Create(const MatmulShape& shape, int threads,
                                           MatmulBackend backend = MatmulBackend::kAuto);
  MatmulPlan(MatmulPlan&&) noexcept;
  MatmulPlan& operator=(MatmulPlan&&) noexcept;
  ~MatmulPlan();

  // `workspace` holds MatmulWorkspaceBytes(shape, threads). One caller at a time per plan. Factors
  // and product are of the shape's types.
  void Run(const Context& context, const void* a, const void* b, void* c, void* workspace) const;

  const MatmulShape& shape() const;
  MatmulBackend backend() const;  // not kAuto

  class Implementation;

 private:
  explicit MatmulPlan(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_MATMUL_H_
