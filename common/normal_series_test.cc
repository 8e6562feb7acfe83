#include "common/normal_series.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/normal_lanes.h"
#include "common/rng.h"
#include "gtest/gtest.h"

namespace strata::common {
namespace {

struct Lanes {
  const char* name;
  bool there;
  decltype(&avx2::WriteNormals) write;
  decltype(&avx2::Factors) factors;
};

std::vector<Lanes> AllLanes() {
  return {{"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
           avx2::WriteNormals, avx2::Factors},
          {"avx512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"),
           avx512::WriteNormals, avx512::Factors}};
}

std::vector<float> OneByOne(uint64_t key, uint64_t first, float scale, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = scale * NormalAt(key, first + i);
  return values;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// Of every uniform number there is: with it, numbers that NormalAt would round otherwise are found
// undecided, whatever words they are made of.
TEST(NormalLanesTest, EveryFactor_IsAsNearAsItSays) {
  constexpr int64_t kAll = int64_t{1} << 24, kBlock = int64_t{1} << 16;
  std::vector<double> radii(kBlock), cosines(kBlock);
  std::vector<double> want_radii(kAll), want_cosines(kAll);
  for (int64_t i = 0; i < kAll; ++i) {
    const double uniform = static_cast<double>(ToUniform(static_cast<uint32_t>(i << 8)));
    want_radii[i] = std::sqrt(-2.0 * std::log(uniform));
    want_cosines[i] = std::cos(6.283185307179586 * uniform);
  }
  for (const Lanes& lanes : AllLanes()) {
    if (!lanes.there) continue;
    double worst_radius = 0, worst_cosine = 0;
    for (int64_t first = 0; first < kAll; first += kBlock) {
      lanes.factors(first, kBlock, radii.data(), cosines.data());
      for (int64_t i = 0; i < kBlock; ++i) {
        const double radius = want_radii[first + i];
        const double off = std::abs(radii[i] - radius);
        worst_radius = std::max(worst_radius, radius == 0 ? off * 1e300 : off / radius);
        worst_cosine = std::max(worst_cosine, std::abs(cosines[i] - want_cosines[first + i]));
      }
    }
    EXPECT_LE(worst_radius, kFactorError) << lanes.name;
    EXPECT_LE(worst_cosine, kFactorError) << lanes.name;
  }
}

TEST(NormalSeriesTest, ManyNumbers_AreThoseOfOneAtATime) {
  constexpr int64_t kCount = (int64_t{1} << 20) + 7;
  const std::vector<float> want = OneByOne(0x123456789ABCDEF, 0, 0.02f, kCount);
  std::vector<float> values(kCount);
  WriteNormals(0x123456789ABCDEF, 0, 0.02f, absl::MakeSpan(values));
  ExpectSameBits(values, want);
  for (const Lanes& lanes : AllLanes()) {
    if (!lanes.there) continue;
    std::fill(values.begin(), values.end(), -7.0f);
    lanes.write(0x123456789ABCDEF, 0, 0.02f, kCount, values.data());
    ExpectSameBits(values, want);
  }
}

TEST(NormalSeriesTest, AnyRange_AlsoWhereCountersPassALowWord) {
  for (const uint64_t begin : {uint64_t{0}, (uint64_t{1} << 33) - 40, ~uint64_t{0} - 200}) {
    for (uint64_t first = begin; first < begin + 20; ++first) {
      for (int64_t count = 0; count < 70; ++count) {
        const std::vector<float> want = OneByOne(9, first, -1.5f, count);
        std::vector<float> values(static_cast<size_t>(count));
        WriteNormals(9, first, -1.5f, absl::MakeSpan(values));
        ExpectSameBits(values, want);
        for (const Lanes& lanes : AllLanes()) {
          if (!lanes.there) continue;
          std::fill(values.begin(), values.end(), -7.0f);
          lanes.write(9, first, -1.5f, count, values.data());
          ExpectSameBits(values, want);
        }
      }
    }
  }
}

// The factors' errors alone would round these to another f32.
TEST(NormalSeriesTest, NumbersAtAnEdgeOfRounding_AreMadeOneByOne) {
  for (const uint64_t edge : {2649120, 3375288, 9725571, 25174698, 25664605, 34678981, 46987908,
                              54763939, 56145061, 57087433, 58669265, 63008122, 63403500}) {
    const std::vector<float> want = OneByOne(1, edge - 5, 1, 40);
    for (const Lanes& lanes : AllLanes()) {
      if (!lanes.there) continue;
      std::vector<float> values(40);
      lanes.write(1, edge - 5, 1, 40, values.data());
      ExpectSameBits(values, want);
    }
  }
}

// Of a uniform number that is 1.
TEST(NormalSeriesTest, Zeros_KeepTheirSigns) {
  for (const uint64_t zero : {27725545, 47387899, 50648290}) {
    const std::vector<float> want = OneByOne(1, zero - 5, 0.02f, 40);
    ASSERT_EQ(want[5], 0);
    EXPECT_EQ(std::signbit(want[5]), zero != 47387899);
    for (const Lanes& lanes : AllLanes()) {
      if (!lanes.there) continue;
      std::vector<float> values(40);
      lanes.write(1, zero - 5, 0.02f, 40, values.data());
      ExpectSameBits(values, want);
    }
  }
}

}  // namespace
}  // namespace strata::common
