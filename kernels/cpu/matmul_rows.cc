// c[m, n] = a[m, k] b[n, k]^T for a handful of rows, as in decoding: each row of b is read once and
// not packed, since it is used too little to pay for that. The work is as fast as memory delivers
// b.
#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::Vec;

// From here on packing b pays.
constexpr int64_t kMostRows = 4;
// Rows of b at once, so that each vector of a that is loaded is used for all of them.
constexpr int64_t kRowsOfB = 4;

// The dot products of a with `kRows` rows of b.
template <int64_t kRows>
void Dots(int64_t k, const float* a, const float* b, int64_t ldb, bool accumulate, float* c) {
  Vec even[kRows], odd[kRows];
  for (int64_t row = 0; row < kRows; ++row) even[row] = odd[row] = simd::Zero();
  int64_t p = 0;
  for (; p + 2 * simd::kLanes <= k; p += 2 * simd::kLanes) {
    const Vec a0 = _mm256_loadu_ps(a + p), a1 = _mm256_loadu_ps(a + p + simd::kLanes);
#pragma GCC unroll 4
    for (int64_t row = 0; row < kRows; ++row) {
      const float* from = b + row * ldb + p;
      even[row] = _mm256_fmadd_ps(a0, _mm256_loadu_ps(from), even[row]);
      odd[row] = _mm256_fmadd_ps(a1, _mm256_loadu_ps(from + simd::kLanes), odd[row]);
    }
  }
  for (; p < k; p += simd::kLanes) {
    const simd::Tail lanes(std::min(simd::kLanes, k - p));
    const Vec a0 = lanes.Load(a + p);
#pragma GCC unroll 4
    for (int64_t row = 0; row < kRows; ++row) {
      even[row] = _mm256_fmadd_ps(a0, lanes.Load(b + row * ldb + p), even[row]);
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const float dot = simd::Sum(_mm256_add_ps(even[row], odd[row]));
    c[row] = accumulate ? c[row] + dot : dot;
  }
}

class RowsMatmul final : public MatmulPlan::Implementation {
 public:
  using Implementation::Implementation;
  MatmulBackend backend() const override { return MatmulBackend::kOwn; }

  void Run(const Context& context, const float* a, const float* b, float* c, void*) override {
    const MatmulShape& s = shape_;
    const int64_t block = RoundUp(RowsPerTask(s.k), kRowsOfB);
    ForBlocks(context, s.n, block, [&](int64_t begin, int64_t end) {
      int64_t j = begin;
      for (; j + kRowsOfB <= end; j += kRowsOfB) {
        for (int64_t i = 0; i < s.m; ++i) {
          Dots<kRowsOfB>(s.k, a + i * s.lda, b + j * s.ldb, s.ldb, s.accumulate, c + i * s.ldc + j);
        }
      }
      for (; j < end; ++j) {
        for (int64_t i = 0; i < s.m; ++i) {
          Dots<1>(s.k, a + i * s.lda, b + j * s.ldb, s.ldb, s.accumulate, c + i * s.ldc + j);
        }
      }
    });
  }
};

}  // namespace

bool SuitsRowsMatmul(const MatmulShape& shape) {
  return shape.m <= kMostRows && !shape.trans_a && shape.trans_b;
}

std::unique_ptr<MatmulPlan::Implementation> MakeRowsMatmul(const MatmulShape& shape) {
  return std::make_unique<RowsMatmul>(shape);
}

}  // namespace strata::kernels
