#include "protocol/versions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::protocol {
namespace {

using testing::HasSubstr;

v1::ProtocolRange Range(int least, int greatest) {
  v1::ProtocolRange range;
  range.set_least(least);
  range.set_greatest(greatest);
  return range;
}

TEST(CommonVersionTest, IsTheGreatestThatBothKnow) {
  EXPECT_EQ(*CommonVersion(OwnRange(), "n0"), kGreatest);
  EXPECT_EQ(*CommonVersion(Range(kGreatest, kGreatest + 3), "n0"), kGreatest);
  EXPECT_EQ(*CommonVersion(Range(1, 1), "n0"), 1);
  EXPECT_EQ(*CommonVersion(Range(1, 5), "n0", Range(4, 6)), 5);
  EXPECT_FALSE(CommonVersion(Range(1, 3), "n0", Range(4, 6)).ok());
}

TEST(CommonVersionTest, APeerWithoutARangeSpeaksTheFirst) {
  EXPECT_EQ(*CommonVersion({}, "n0"), 1);
}

TEST(CommonVersionTest, WhoHasNoneInCommonIsToldWhoIsToBeUpgraded) {
  const auto newer = CommonVersion(Range(kGreatest + 1, kGreatest + 2), "n0");
  EXPECT_EQ(newer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("upgrade this program"));
  EXPECT_FALSE(CommonVersion(Range(5, 1), "n0").ok());
}

}  // namespace
}  // namespace strata::protocol
