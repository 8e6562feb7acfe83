#include "kernels/reference/matmul.h"

namespace strata::kernels::reference {

Doubles Matmul(const MatmulShape& s, const Doubles& a, const Doubles& b, const Doubles& c) {
  const int64_t lda = s.lda != 0 ? s.lda : s.trans_a ? s.m : s.k;
  const int64_t ldb = s.ldb != 0 ? s.ldb : s.trans_b ? s.k : s.n;
  const int64_t ldc = s.ldc != 0 ? s.ldc : s.n;
  Doubles result = c;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = s.accumulate ? result[i * ldc + j] : 0;
      for (int64_t p = 0; p < s.k; ++p) {
        const double x = s.trans_a ? a[p * lda + i] : a[i * lda + p];
        const double y = s.trans_b ? b[j * ldb + p] : b[p * ldb + j];
        sum += x * y;
      }
      result[i * ldc + j] = sum;
    }
  }
  return result;
}

}  // namespace strata::kernels::reference
