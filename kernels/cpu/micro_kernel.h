// The inner product of all our matrix products: a 6 x 16 tile of c held in twelve registers.
#ifndef STRATA_KERNELS_CPU_MICRO_KERNEL_H_
#define STRATA_KERNELS_CPU_MICRO_KERNEL_H_

#include <cstdint>

#include "kernels/cpu/simd.h"

namespace strata::kernels {

inline constexpr int64_t kTileRows = 6;
inline constexpr int64_t kTileColumns = 16;

// c[6, 16] = (accumulate: +=) the sum over p in [0, k) of a(i, p) * b(p, j), in ascending p, where
// a(i, p) = a[i * a_row + p * a_k], b(p, j) = b[p * ldb + j], c(i, j) = c[i * ldc + j].
[[gnu::always_inline]] inline void MicroKernel(int64_t k, const float* a, int64_t a_row,
                                               int64_t a_k, const float* b, int64_t ldb, float* c,
                                               int64_t ldc, bool accumulate) {
  using simd::Vec;
  Vec c00 = simd::Zero(), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  Vec c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  const float* a3 = a + 3 * a_row;
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p) {
    const Vec b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
    Vec x = _mm256_broadcast_ss(a);
    c00 = _mm256_fmadd_ps(x, b0, c00);
    c01 = _mm256_fmadd_ps(x, b1, c01);
    x = _mm256_broadcast_ss(a + a_row);
    c10 = _mm256_fmadd_ps(x, b0, c10);
    c11 = _mm256_fmadd_ps(x, b1, c11);
    x = _mm256_broadcast_ss(a + 2 * a_row);
    c20 = _mm256_fmadd_ps(x, b0, c20);
    c21 = _mm256_fmadd_ps(x, b1, c21);
    x = _mm256_broadcast_ss(a3);
    c30 = _mm256_fmadd_ps(x, b0, c30);
    c31 = _mm256_fmadd_ps(x, b1, c31);
    x = _mm256_broadcast_ss(a3 + a_row);
    c40 = _mm256_fmadd_ps(x, b0, c40);
    c41 = _mm256_fmadd_ps(x, b1, c41);
    x = _mm256_broadcast_ss(a3 + 2 * a_row);
    c50 = _mm256_fmadd_ps(x, b0, c50);
    c51 = _mm256_fmadd_ps(x, b1, c51);
    a += a_k;
    a3 += a_k;
    b += ldb;
  }
  const auto store = [&](float* row, Vec left, Vec right) {
    if (accumulate) {
      left = _mm256_add_ps(left, _mm256_loadu_ps(row));
      right = _mm256_add_ps(right, _mm256_loadu_ps(row + 8));
    }
    _mm256_storeu_ps(row, left);
    _mm256_storeu_ps(row + 8, right);
  };
  store(c, c00, c01);
  store(c + ldc, c10, c11);
  store(c + 2 * ldc, c20, c21);
  store(c + 3 * ldc, c30, c31);
  store(c + 4 * ldc, c40, c41);
  store(c + 5 * ldc, c50, c51);
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_MICRO_KERNEL_H_
