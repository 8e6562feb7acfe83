// c[m, n] = a[m, k] b[n, k]^T for a handful of rows, as in decoding: each row of b is read once and
// not packed, since it is used too little to pay for that. The work is as fast as memory delivers
// b.
#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

// From here on packing b pays.
constexpr int64_t kMostRows = 4;
// Rows of b at once, so that each vector of a that is loaded is used for all of them.
constexpr int64_t kRowsOfB = 4;

// The dot products of a with `kRows` rows of b.
template <int64_t kRows, typename In, typename Out>
void Dots(int64_t k, const In* a, const In* b, int64_t ldb, bool accumulate, Out* c) {
  Vec even[kRows], odd[kRows];
  for (int64_t row = 0; row < kRows; ++row) even[row] = odd[row] = simd::Zero();
  int64_t p = 0;
  for (; p + 2 * simd::kLanes <= k; p += 2 * simd::kLanes) {
    const simd::Full lanes;
    const Vec a0 = lanes.Load(a + p), a1 = lanes.Load(a + p + simd::kLanes);
#pragma GCC unroll 4
    for (int64_t row = 0; row < kRows; ++row) {
      const In* from = b + row * ldb + p;
      even[row] = simd::MulAdd(a0, lanes.Load(from), even[row]);
      odd[row] = simd::MulAdd(a1, lanes.Load(from + simd::kLanes), odd[row]);
    }
  }
  for (; p < k; p += simd::kLanes) {
    const simd::Tail lanes(std::min(simd::kLanes, k - p));
    const Vec a0 = lanes.Load(a + p);
#pragma GCC unroll 4
    for (int64_t row = 0; row < kRows; ++row) {
      even[row] = simd::MulAdd(a0, lanes.Load(b + row * ldb + p), even[row]);
    }
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const float dot = simd::Sum(simd::Add(even[row], odd[row]));
    c[row] = FromFloat<Out>(accumulate ? ToFloat(c[row]) + dot : dot);
  }
}

template <typename In, typename Out>
class RowsMatmul final : public MatmulPlan::Implementation {
 public:
  using MatmulPlan::Implementation::Implementation;
  MatmulBackend backend() const override { return MatmulBackend::kOwn; }

  void Run(const Context& context, const void* from_a, const void* from_b, void* to,
           void*) override {
    const MatmulShape& s = this->shape_;
    const In *a = static_cast<const In*>(from_a), *b = static_cast<const In*>(from_b);
    Out* c = static_cast<Out*>(to);
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
  return MakeTyped<RowsMatmul>(shape);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(bool, SuitsRowsMatmul, const MatmulShape&)
STRATA_PLAIN_KERNEL(std::unique_ptr<MatmulPlan::Implementation>, MakeRowsMatmul, const MatmulShape&)

}  // namespace strata::kernels
