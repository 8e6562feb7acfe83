// Quotients and square roots of f32 that are rounded correctly, as __fdiv_rn and __fsqrt_rn round
// them, without their branches: for numbers whose exponents are far from both ends, which callers
// see to. So the compiler mixes the work on several.
#ifndef STRATA_KERNELS_CUDA_QUOTIENTS_CUH_
#define STRATA_KERNELS_CUDA_QUOTIENTS_CUH_

namespace strata::kernels::cuda {

// For many quotients by one number, three operations each (Markstein, "Computation of elementary
// functions on the IBM RISC System/6000 processor", 1990).
struct Divisor {
  Divisor() = default;
  __device__ explicit Divisor(float divisor) {
    of = divisor;
    reciprocal = __frcp_rn(divisor);
  }

  __device__ __forceinline__ float Near(float x) const { return __fmul_rn(x, reciprocal); }
  __device__ __forceinline__ float Correct(float near, float x) const {
    return __fmaf_rn(__fmaf_rn(-near, of, x), reciprocal, near);
  }
  __device__ __forceinline__ float Into(float x) const { return Correct(Near(x), x); }

  float of, reciprocal;
};

__device__ __forceinline__ float QuickQuotient(float x, float divisor) {
  Divisor by;
  by.of = divisor;
  float near;  // in its last place or the one before
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(divisor));
  by.reciprocal = __fmaf_rn(near, __fmaf_rn(-divisor, near, 1), near);
  return by.Into(x);
}

// Of 0, too.
__device__ __forceinline__ float QuickRoot(float x) {
  float reciprocal;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  const float near = __fmul_rn(x, reciprocal), half = __fmul_rn(reciprocal, 0.5F);
  const float root = __fmaf_rn(__fmaf_rn(-near, near, x), half, near);
  return x == 0 ? 0 : root;
}

// Whether x is 0 or its magnitude in [2^low, 2^high).
template <int kLow, int kHigh>
__device__ __forceinline__ bool IsWithin(float x) {
  constexpr unsigned kLeast = unsigned{127 + kLow} << 23, kMost = unsigned{127 + kHigh} << 23;
  const unsigned bits = __float_as_uint(x) & 0x7fffffff;
  return bits == 0 || bits - kLeast < kMost - kLeast;
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_QUOTIENTS_CUH_
