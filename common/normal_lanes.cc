#include "common/normal_lanes.h"

#include <immintrin.h>

#include <cstdint>

#include "common/rng.h"

#ifdef STRATA_COMPILE_AVX512
#define STRATA_ISA avx512
#else
#define STRATA_ISA avx2
#endif

// No name of the standard library: its code could be linked in for other instruction sets.
namespace strata::common::STRATA_ISA {
namespace {

#ifdef STRATA_COMPILE_AVX512
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kBytes = kLanes * sizeof(double);
using Doubles [[gnu::vector_size(kBytes)]] = double;
using Words [[gnu::vector_size(kBytes)]] = uint64_t;
// Twice as many, anywhere.
using Floats [[gnu::vector_size(kBytes), gnu::aligned(4), gnu::may_alias]] = float;

#ifdef STRATA_COMPILE_AVX512
inline Doubles Sqrt(Doubles x) { return _mm512_sqrt_pd(x); }
inline Words FloatBits(Doubles x) {
  return reinterpret_cast<Words>(_mm512_cvtepu32_epi64(_mm256_castps_si256(_mm512_cvtpd_ps(x))));
}
// Of the lower halves of lanes.
inline Words Multiply(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
inline bool AnyBit(Words x) {
  const auto bits = reinterpret_cast<__m512i>(x);
  return _mm512_test_epi64_mask(bits, bits) != 0;
}
constexpr Words kLane = {0, 1, 2, 3, 4, 5, 6, 7};
#else
inline Doubles Sqrt(Doubles x) { return _mm256_sqrt_pd(x); }
inline Words FloatBits(Doubles x) {
  return reinterpret_cast<Words>(_mm256_cvtepu32_epi64(_mm_castps_si128(_mm256_cvtpd_ps(x))));
}
inline Words Multiply(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
inline bool AnyBit(Words x) {
  const auto bits = reinterpret_cast<__m256i>(x);
  return _mm256_testz_si256(bits, bits) == 0;
}
constexpr Words kLane = {0, 1, 2, 3};
#endif

inline Words Set(uint64_t x) { return Words{} + x; }
inline Doubles Set(double x) { return Doubles{} + x; }

// Integers below 2⁵², by way of the last bits of 2⁵² + n.
inline Doubles ToDoubles(Words n) {
  return reinterpret_cast<Doubles>(n | 0x4330000000000000) - 0x1p52;
}

// sqrt(-2 ln(n / 2²⁴)). With n = 2ᵏ f, f from sqrt(1/2) to sqrt(2), ln f = 2 artanh s of
// s = (f - 1) / (f + 1), |s| < 0.172: what the series' first nine terms lack is below 2⁻⁵⁰ of it.
inline Doubles Radius(Words n) {
  constexpr double kLn2 = 0.6931471805599453;
  const Words bits = reinterpret_cast<Words>(ToDoubles(n));
  const Words k = (bits - 0x3FE6A09E667F3BCD) >> 52;
  const Doubles f = reinterpret_cast<Doubles>(bits - (k << 52));
  const Doubles s = (f - 1) / (f + 1), z = s * s;
  Doubles p = Set(1.0 / 17);
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return Sqrt(-2 * ((ToDoubles(k) - 24) * kLn2 + 2 * s * p));
}

// cos(2 pi n / 2²⁴) = sin t, |t| <= pi / 2, where Taylor's series up to t¹⁹ lacks less than 2⁻⁵¹.
inline Doubles Cosine(Words n) {
  constexpr double kPi = 3.141592653589793;
  const Doubles d = ToDoubles(n) - 0x1p23;
  const Doubles magnitude = reinterpret_cast<Doubles>(reinterpret_cast<Words>(d) & ~(1ULL << 63));
  const Doubles t = (magnitude - 0x1p22) * (kPi * 0x1p-23), z = t * t;
  Doubles p = Set(-1 / 121645100408832000.0);
  p = p * z + 1 / 355687428096000.0;
  p = p * z - 1 / 1307674368000.0;
  p = p * z + 1 / 6227020800.0;
  p = p * z - 1 / 39916800.0;
  p = p * z + 1 / 362880.0;
  p = p * z - 1 / 5040.0;
  p = p * z + 1 / 120.0;
  p = p * z - 1 / 6.0;
  return t + t * z * p;
}

// 1 + the upper 24 of 32 bits: see ToUniform.
inline Words UniformOf(Words word) { return ((word & 0xFFFFFFFF) >> 8) + 1; }

struct Numbers {
  Words bits;       // of f32
  Words undecided;  // 0: these are NormalAt's
};

// f32 is far coarser than what the factors lack: all numbers that NormalAt's may be round to the
// same one, but for one of millions.
inline Numbers Normals(Words radius_word, Words angle_word) {
  const Doubles radius = Radius(UniformOf(radius_word));
  const Doubles number = radius * Cosine(UniformOf(angle_word));
  const Doubles error = radius * (4 * kFactorError);
  const Words low = FloatBits(number - error), high = FloatBits(number + error);
  return {low, low ^ high};
}

// Two numbers a lane: those of blocks counter + lane of Philox (rng.cc), in their order.
inline bool WriteBatch(uint64_t key, uint64_t counter, float scale, float* out) {
  const Words block = counter + kLane;
  Words c0 = block, c1 = block >> 32, c2 = Set(uint64_t{1}), c3 = Set(uint64_t{0});
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Words p0 = Multiply(c0, Set(uint64_t{0xD2511F53}));
    const Words p1 = Multiply(c2, Set(uint64_t{0xCD9E8D57}));
    // The upper halves of lanes count nowhere.
    c0 = (p1 >> 32) ^ c1 ^ uint64_t { k0 }, c2 = (p0 >> 32) ^ c3 ^ uint64_t { k1 };
    c1 = p1, c3 = p0;
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  const Numbers even = Normals(c0, c1), odd = Normals(c2, c3);
  if (AnyBit(even.undecided | odd.undecided)) return false;
  const Words both = even.bits | (odd.bits << 32);
  *reinterpret_cast<Floats*>(out) = scale * reinterpret_cast<Floats>(both);
  return true;
}

}  // namespace

void WriteNormals(uint64_t key, uint64_t first, float scale, int64_t count, float* out) {
  constexpr int kBatch = 2 * kLanes;
  int64_t i = 0;
  const auto one_by_one = [&](int64_t end) {
    for (; i < end; ++i) out[i] = scale * NormalAt(key, first + static_cast<uint64_t>(i));
  };
  if (first % 2 == 1 && count > 0) one_by_one(1);  // the second one of its block
  while (count - i >= kBatch) {
    const uint64_t counter = (first + static_cast<uint64_t>(i)) / 2;
    if (WriteBatch(key, counter, scale, out + i)) {
      i += kBatch;
    } else {
      one_by_one(i + kBatch);
    }
  }
  one_by_one(count);
}

void Factors(uint64_t first, int64_t count, double* radii, double* cosines) {
  using Stored [[gnu::vector_size(kBytes), gnu::aligned(8), gnu::may_alias]] = double;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Words n = first + static_cast<uint64_t>(i) + 1 + kLane;
    *reinterpret_cast<Stored*>(radii + i) = Radius(n);
    *reinterpret_cast<Stored*>(cosines + i) = Cosine(n);
  }
}

}  // namespace strata::common::STRATA_ISA
