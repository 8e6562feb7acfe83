#include "memory/ssd/stripes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::memory {
namespace {

constexpr int64_t kStripe = 4096;

// Every stripe has a place of its own, within its file's bytes and limit; together they fill them.
void ExpectPartition(const std::vector<int64_t>& limits, int64_t bytes) {
  const auto stripes = Stripes::Create(limits, kStripe, bytes);
  ASSERT_TRUE(stripes.ok()) << stripes.status();
  std::map<std::pair<int, int64_t>, int64_t> seen;
  std::vector<int64_t> end(limits.size());
  for (int64_t at = 0; at < bytes; at += kStripe / 2) {
    const Stripes::Place place = stripes->Find(at);
    EXPECT_TRUE(seen.emplace(std::pair(place.file, place.offset), at).second) << at;
    EXPECT_EQ(place.offset % kStripe, at % kStripe);
    EXPECT_EQ(place.bytes, kStripe - at % kStripe);
    end[place.file] = std::max(end[place.file], place.offset + std::min(kStripe / 2, bytes - at));
  }
  for (size_t file = 0; file < limits.size(); ++file) {
    EXPECT_EQ(stripes->file_bytes(static_cast<int>(file)), end[file]);
    if (limits[file] > 0) {
      EXPECT_LE(end[file], limits[file]);
    }
  }
}

TEST(Stripes, EveryByteHasOnePlaceWithinItsFilesLimit) {
  ExpectPartition({0}, 10 * kStripe);
  ExpectPartition({0, 0, 0}, 10 * kStripe + kStripe / 2);
  ExpectPartition({3 * kStripe, 0}, 20 * kStripe);
  ExpectPartition({5 * kStripe + 17, 2 * kStripe, kStripe - 1, 9 * kStripe}, 16 * kStripe);
  ExpectPartition({kStripe, kStripe}, 2 * kStripe);
}

TEST(Stripes, FilesTakeTurns) {
  const auto stripes = Stripes::Create({0, 0}, kStripe, 4 * kStripe);
  ASSERT_TRUE(stripes.ok());
  EXPECT_EQ(stripes->Find(0).file, 0);
  EXPECT_EQ(stripes->Find(kStripe).file, 1);
  EXPECT_EQ(stripes->Find(2 * kStripe).file, 0);
  EXPECT_EQ(stripes->Find(2 * kStripe + 5).offset, kStripe + 5);
}

TEST(Stripes, MoreThanTheLimitsAllowIsRefusedWithTheBytes) {
  const absl::Status status =
      Stripes::Create({kStripe, 2 * kStripe}, kStripe, 4 * kStripe).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_NE(status.message().find("16384 bytes of the SSD tier do not fit into the 12288"),
            absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace strata::memory
