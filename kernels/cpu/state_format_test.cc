#include "kernels/state_format.h"

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"

namespace strata::kernels {
namespace {

using testing::Floats;

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

TEST(StateFormat, RoundingGoesToTheNearestAndTiesAwayFromZero) {
  for (uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float low = ToFloat(BFloat16{static_cast<uint16_t>(bits)});
    const float high = ToFloat(BFloat16{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(RoundAwayToBFloat16(middle).bits, bits + 1);
    EXPECT_EQ(RoundAwayToBFloat16(-middle).bits, (bits + 1) | 0x8000);
    EXPECT_EQ(RoundAwayToBFloat16(std::nextafter(middle, low)).bits, bits);
  }
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = ToFloat(Float16{static_cast<uint16_t>(bits)});
    const float high = ToFloat(Float16{static_cast<uint16_t>(bits + 1)});
    const float middle = (low + high) / 2;
    EXPECT_EQ(RoundAwayToFloat16(middle).bits, bits + 1);
    EXPECT_EQ(RoundAwayToFloat16(-middle).bits, (bits + 1) | 0x8000);
    EXPECT_EQ(RoundAwayToFloat16(std::nextafter(middle, low)).bits, bits);
    EXPECT_EQ(RoundAwayToFloat16(low).bits, bits);
  }
  EXPECT_EQ(RoundAwayToFloat16(1e6F).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(ToFloat(RoundAwayToBFloat16(std::bit_cast<float>(0x7fffffffu)))));
  EXPECT_TRUE(std::isnan(ToFloat(RoundAwayToFloat16(std::nanf("")))));
}

TEST(StateFormat, ElementsAreRoundedAloneAndInRowsAlike) {
  Floats values;
  for (uint32_t i = 0; i < 1000; ++i) values.push_back(std::bit_cast<float>(i * 0x01234567u));
  for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu, 0x7f7fffffu}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  const auto count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> weights(count), remainders(count), moments(count);
  const Weights split = {NumberType::kBF16, MasterFormat::kRemainder,
                         reinterpret_cast<std::byte*>(weights.data()),
                         reinterpret_cast<std::byte*>(remainders.data())};
  const Moments kept = {MomentFormat::kBF16, reinterpret_cast<std::byte*>(moments.data()), count};
  for (const int64_t row : {1, 7, 8, 21}) {
    for (int64_t at = 0; at < count; at += row) {
      const int64_t size = std::min(row, count - at);
      WriteMaster(split, at, size, values.data() + at);
      WriteMoments(kept, at, size, values.data() + at);
    }
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(weights[i], RoundAwayToBFloat16(values[i]).bits) << i;
      ASSERT_EQ(remainders[i], Bits(values[i]) & 0xffff) << i;
      ASSERT_EQ(moments[i], FromFloat<BFloat16>(values[i]).bits) << i;
    }
  }
}

TEST(StateFormat, WeightsPastTheCachesAreThoseThroughThem) {
  constexpr int64_t kCount = 640;
  const Floats values = testing::Random(kCount, 1);
  for (const NumberType type : {NumberType::kBF16, NumberType::kF16, NumberType::kF32}) {
    alignas(64) std::byte through[4 * kCount + 64] = {}, past[4 * kCount + 64] = {};
    for (const int64_t at : {0, 4}) {  // in whole vectors, and not
      for (const int64_t size : {kCount, kCount - 256, int64_t{37}}) {
        const auto write = [&](auto function, std::byte* to) {
          function(Weights{type, MasterFormat::kF32, to + at, nullptr}, 0, size, values.data());
        };
        write(WriteWeights, through);
        write(StreamWeights, past);
        _mm_sfence();
        EXPECT_EQ(std::memcmp(through, past, sizeof(past)), 0) << at << ", " << size;
      }
    }
  }
}

TEST(StateFormat, AWeightAndItsRemainderAreTheMaster) {
  // All exponents and signs, with mantissas around the ties.
  Floats values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  const auto count = static_cast<int64_t>(values.size());
  std::vector<std::byte> weights(count * 2), remainders(count * 2);
  const Weights split = {NumberType::kBF16, MasterFormat::kRemainder, weights.data(),
                         remainders.data()};
  WriteMaster(split, 0, count, values.data());
  Floats again(count);
  ReadMaster(split, 0, count, again.data());
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(Bits(values[i]), Bits(again[i])) << i;
}

TEST(StateFormat, TablesAreThoseOfBitsandbytes) {
  // Of bitsandbytes.functional.create_dynamic_map (0.50.2): h = 31 h + bits, over all entries.
  const auto hash = [](MomentFormat format) {
    uint64_t sum = 0;
    for (const float entry : MomentTable(format)) sum = sum * 31 + Bits(entry);
    return sum;
  };
  EXPECT_EQ(hash(MomentFormat::kSigned8), 0xbccb8e6ca4416a6cu);
  EXPECT_EQ(hash(MomentFormat::kUnsigned8), 0xc018be81058e22f4u);
}

// The entry of the table that is nearest to the value over its block's farthest, looked for in the
// plainest way.
float NearestOf(MomentFormat format, float value, float scale) {
  float best = 0, distance = std::numeric_limits<float>::infinity();
  for (const float entry : MomentTable(format)) {
    // What is not zero stays so, on its side.
    if (value != 0 && (entry == 0 || (entry < 0) != (value / scale < 0))) continue;
    const float apart = std::abs(value / scale - entry);
    if (apart < distance) best = entry, distance = apart;
  }
  return best * scale;
}

TEST(StateFormat, EightBitsHoldTheNearestEntryAndKeepTheirBitsWhenWrittenAgain) {
  const int64_t count = 5 * kMomentBlock;
  for (const MomentFormat format : {MomentFormat::kSigned8, MomentFormat::kUnsigned8}) {
    Floats values = testing::Random(count, 7);
    for (int64_t i = 0; i < count; ++i) {
      values[i] *= std::pow(10.0F, static_cast<float>(i % 9) - 6);  // many decades
      if (format == MomentFormat::kUnsigned8) values[i] = std::abs(values[i]);
    }
    for (int64_t i = 0; i < kMomentBlock; ++i) values[2 * kMomentBlock + i] = 0;
    values[3 * kMomentBlock] = format == MomentFormat::kSigned8 ? -1e9F : 1e9F;  // a farthest one
    std::vector<std::byte> kept(MomentBytes(format, count)), again(kept.size());
    const Moments moments = {format, kept.data(), count}, second = {format, again.data(), count};
    WriteMoments(moments, 0, count, values.data());
    Floats read(count);
    ReadMoments(moments, 0, count, read.data());
    for (int64_t block = 0; block < 5; ++block) {
      float farthest = 0;
      for (int64_t i = 0; i < kMomentBlock; ++i) {
        const float value = values[block * kMomentBlock + i];
        if (std::abs(value) > std::abs(farthest)) farthest = value;
      }
      for (int64_t i = block * kMomentBlock; i < (block + 1) * kMomentBlock; ++i) {
        const float nearest = farthest == 0 ? 0 : NearestOf(format, values[i], farthest);
        EXPECT_NEAR(read[i], nearest, std::abs(nearest) * 1e-2) << i;
        const float off = std::abs(read[i] - values[i]);
        EXPECT_LE(off, std::abs(nearest - values[i]) * 1.0001F + 1e-30F) << i;
        EXPECT_EQ(read[i] == 0, values[i] == 0) << i;
      }
    }
    WriteMoments(second, 0, count, read.data());
    EXPECT_EQ(kept, again);
    // Blocks are independent of what is written with them.
    for (int64_t block = 4; block >= 0; --block) {
      WriteMoments(second, block * kMomentBlock, kMomentBlock,
                   values.data() + block * kMomentBlock);
    }
    EXPECT_EQ(kept, again);
  }
}

TEST(StateFormat, InfiniteAndUndefinedMomentsStayInTheirBlock) {
  const int64_t count = 2 * kMomentBlock;
  Floats values(count, 1);
  values[3] = std::numeric_limits<float>::infinity();
  values[4] = std::nanf("");
  std::vector<std::byte> kept(MomentBytes(MomentFormat::kSigned8, count));
  const Moments moments = {MomentFormat::kSigned8, kept.data(), count};
  WriteMoments(moments, 0, count, values.data());
  Floats read(count);
  ReadMoments(moments, 0, count, read.data());
  EXPECT_EQ(read[3], std::numeric_limits<float>::max());
  EXPECT_EQ(read[kMomentBlock], 1);
}

TEST(StateFormat, SixteenBitMomentsAreRoundedToTheNearest) {
  const Floats values = testing::Random(1000, 3);
  std::vector<std::byte> kept(2000);
  const Moments moments = {MomentFormat::kBF16, kept.data(), 1000};
  WriteMoments(moments, 0, 1000, values.data());
  Floats read(1000);
  ReadMoments(moments, 0, 1000, read.data());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Bits(read[i]), Bits(ToFloat(FromFloat<BFloat16>(values[i]))));
  }
}

}  // namespace
}  // namespace strata::kernels
