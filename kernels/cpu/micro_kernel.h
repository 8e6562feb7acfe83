// The inner product of all our matrix products: six rows of c by two vectors, held in twelve
// registers.
#ifndef STRATA_KERNELS_CPU_MICRO_KERNEL_H_
#define STRATA_KERNELS_CPU_MICRO_KERNEL_H_

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kTileColumns = 2 * simd::kLanes;

// c[6, kTileColumns] = (accumulate: +=) the sum over p in [0, k) of a(i, p) * b(p, j), in ascending
// p, where a(i, p) = a[i * a_row + p * a_k], b(p, j) = b[p * ldb + j], c(i, j) = c[i * ldc + j].
[[gnu::always_inline]] inline void MicroKernel(int64_t k, const float* a, int64_t a_row,
                                               int64_t a_k, const float* b, int64_t ldb, float* c,
                                               int64_t ldc, bool accumulate) {
  using simd::Vec;
  Vec c00 = simd::Zero(), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  Vec c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  const float* a3 = a + 3 * a_row;
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p) {
    const Vec b0 = simd::Load(b), b1 = simd::Load(b + simd::kLanes);
    Vec x = simd::Set(*a);
    c00 = simd::MulAdd(x, b0, c00);
    c01 = simd::MulAdd(x, b1, c01);
    x = simd::Set(a[a_row]);
    c10 = simd::MulAdd(x, b0, c10);
    c11 = simd::MulAdd(x, b1, c11);
    x = simd::Set(a[2 * a_row]);
    c20 = simd::MulAdd(x, b0, c20);
    c21 = simd::MulAdd(x, b1, c21);
    x = simd::Set(*a3);
    c30 = simd::MulAdd(x, b0, c30);
    c31 = simd::MulAdd(x, b1, c31);
    x = simd::Set(a3[a_row]);
    c40 = simd::MulAdd(x, b0, c40);
    c41 = simd::MulAdd(x, b1, c41);
    x = simd::Set(a3[2 * a_row]);
    c50 = simd::MulAdd(x, b0, c50);
    c51 = simd::MulAdd(x, b1, c51);
    a += a_k;
    a3 += a_k;
    b += ldb;
  }
  const auto store = [&](float* row, Vec left, Vec right) {
    if (accumulate) {
      left = simd::Add(left, simd::Load(row));
      right = simd::Add(right, simd::Load(row + simd::kLanes));
    }
    simd::Store(row, left);
    simd::Store(row + simd::kLanes, right);
  };
  store(c, c00, c01);
  store(c + ldc, c10, c11);
  store(c + 2 * ldc, c20, c21);
  store(c + 3 * ldc, c30, c31);
  store(c + 4 * ldc, c40, c41);
  store(c + 5 * ldc, c50, c51);
}

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_MICRO_KERNEL_H_
