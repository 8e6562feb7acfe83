#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "common/digest.h"
#include "common/entropy.h"
#include "common/rng.h"
#include "common/sha256.h"
#include "common/units.h"
#include "gtest/gtest.h"

namespace strata::common {
namespace {

TEST(RngTest, PhiloxMatchesThePublishedVectors) {
  // Known answers of Random123's kat_vectors for philox4x32 with 10 rounds.
  EXPECT_EQ(Philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RngTest, NormalNumbersHaveUnitVariance) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = NormalAt(7, i);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

TEST(EntropyTest, UuidsAreOfVersionFourAndNeverTheSame) {
  const Entropy system = SystemEntropy(), seeded = SeededEntropy(7);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = DrawUuid(i % 2 == 0 ? system : seeded);
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4') << uuid;
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos) << uuid;
    EXPECT_TRUE(seen.insert(uuid).second) << uuid;
  }
  EXPECT_EQ(DrawUuid(SeededEntropy(7)), DrawUuid(SeededEntropy(7)));
  EXPECT_NE(DrawUuid(SeededEntropy(7)), DrawUuid(SeededEntropy(8)));
}

TEST(Sha256Test, MatchesThePublishedAnswer) {
  Sha256 sha;  // FIPS 180-4's example
  sha.Add("a", 1);
  sha.Add("bc", 2);
  EXPECT_EQ(sha.Finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(EntropyTest, BytesAreAsManyAsAskedForAndOfTheWordsDrawn) {
  uint64_t word = 0x0807060504030201;
  const Entropy counting = [&word] { return word++; };
  EXPECT_EQ(DrawBytes(counting, 10), "\1\2\3\4\5\6\7\10\2\2");
  EXPECT_EQ(word, 0x0807060504030203u);
  EXPECT_EQ(DrawBytes(counting, 0), "");
}

// On a processor with AVX2 as on one without: files go from one to the other.
TEST(DigestTest, ChecksumsOfStreamsAreTheLibrarys) {
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 3);
  Checksum checksum;
  for (const size_t size : {0, 1, 200, 241, 1024, 1025, 99'999}) {
    for (const size_t piece : {7, 256, 1000, 65536}) {
      checksum.Reset();
      Digester digester;
      for (size_t at = 0; at < size; at += piece) {
        checksum.Add(bytes.data() + at, std::min(piece, size - at));
        digester.Add(bytes.data() + at, std::min(piece, size - at));
      }
      EXPECT_EQ(checksum.Finish(), XXH3_64bits(bytes.data(), size)) << size << " by " << piece;
      const XXH128_hash_t wide = XXH3_128bits(bytes.data(), size);
      EXPECT_EQ(digester.Finish(), absl::StrFormat("%016x%016x", wide.high64, wide.low64));
      EXPECT_EQ(DigestOf(bytes.data(), size), digester.Finish());
    }
  }
}

TEST(DigestTest, StreamEqualsOneBuffer) {
  Digester digester;
  digester.Add("in the ", 7);
  digester.Add("beginning", 9);
  EXPECT_EQ(digester.Finish(), DigestOf("in the beginning"));
  EXPECT_NE(digester.Finish(), DigestOf("in the beginninG"));
}

TEST(UnitsTest, PeopleCanReadThem) {
  EXPECT_EQ(FormatBytes(640), "640 B");
  EXPECT_EQ(FormatBytes(1.5 * kGiB), "1.50 GiB");
  EXPECT_EQ(FormatDecimal(1.25e12, "FLOP"), "1.25 TFLOP");
  EXPECT_EQ(FormatSeconds(200), "3 min 20 s");
  EXPECT_EQ(RoundUp(65, 64), 128);
}

}  // namespace
}  // namespace strata::common
