// Numbers of a standard normal series, several at a time: compiled for AVX2 with FMA and again for
// AVX-512, into a namespace each. Of normal_series.h and its test.
#ifndef STRATA_COMMON_NORMAL_LANES_H_
#define STRATA_COMMON_NORMAL_LANES_H_

#include <cstdint>

namespace strata::common {

// Both factors of a number come this near to what NormalAt has before it rounds: the radius
// relative to itself, the cosine absolutely. The test looks at all that there are.
inline constexpr double kFactorError = 0x1p-48;

// For both: values[i] = scale * NormalAt(key, first + i), in every bit.
// Factors: of the 2²⁴ uniform numbers n / 2²⁴, n = 1 + i, those from i = first on, a multiple of 16
// as `count` is.
#define STRATA_NORMAL_LANES(isa)                                                           \
  namespace isa {                                                                          \
  void WriteNormals(uint64_t key, uint64_t first, float scale, int64_t count, float* out); \
  void Factors(uint64_t first, int64_t count, double* radii, double* cosines);             \
  }
STRATA_NORMAL_LANES(avx2)
STRATA_NORMAL_LANES(avx512)
#undef STRATA_NORMAL_LANES

}  // namespace strata::common

#endif  // STRATA_COMMON_NORMAL_LANES_H_
