#include "planner/cost/profile_cost_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/table.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;
using program::Op;
using program::OpKind;

void AddOp(v1::RankProfile& profile, const Op& op, double seconds) {
  v1::OpTime& time = *profile.add_ops();
  const auto cost = ops::EntryOf(op.kind).cost(op);
  ASSERT_TRUE(cost.ok()) << cost.status();
  time.set_kind(Name(op.kind));
  time.mutable_shape()->Assign(op.ints.begin(), op.ints.end());
  time.set_flops(cost->flops);
  time.set_bytes(cost->bytes);
  time.set_seconds(seconds);
}

Op Product(int64_t m, int64_t n, int64_t k, bool trans_b = false, bool accumulate = false) {
  return ops::ToOp(
      ops::MatMul{.m = m, .n = n, .k = k, .trans_b = trans_b, .accumulate = accumulate});
}

TEST(ProfileCostModelTest, MeasuredProductsHaveTheirTimes_ByTransposition) {
  v1::RankProfile profile;
  AddOp(profile, Product(64, 128, 256), 1);
  AddOp(profile, Product(64, 128, 256, true), 3);
  const ProfileCostModel costs(profile);
  EXPECT_NEAR(costs.OpSeconds(Product(64, 128, 256)), 1, 1e-3);
  EXPECT_NEAR(costs.OpSeconds(Product(64, 128, 256, true)), 3, 1e-3);
}

TEST(ProfileCostModelTest, ProductsOfOtherNumbersHaveTheirOwnTimes_WhereTheseWereMeasured) {
  const auto of = [](program::DType type) {
    return ops::ToOp(ops::MatMul{.m = 64, .n = 64, .k = 64, .type = type, .out_type = type});
  };
  v1::RankProfile profile;
  AddOp(profile, of(program::DType::kF32), 8);
  EXPECT_NEAR(ProfileCostModel(profile).OpSeconds(of(program::DType::kBF16)), 8, 1e-3);
  AddOp(profile, of(program::DType::kBF16), 1);
  EXPECT_NEAR(ProfileCostModel(profile).OpSeconds(of(program::DType::kBF16)), 1, 1e-3);
  EXPECT_NEAR(ProfileCostModel(profile).OpSeconds(of(program::DType::kF32)), 8, 1e-3);
}

TEST(ProfileCostModelTest, OtherProductsHaveTheRateOfNearShapes) {
  v1::RankProfile profile;
  AddOp(profile, Product(64, 64, 64), 1);
  AddOp(profile, Product(1024, 1024, 1024), 1024);  // four times as fast
  const ProfileCostModel costs(profile);
  EXPECT_NEAR(costs.OpSeconds(Product(64, 64, 128)), 2, 0.2);
  EXPECT_NEAR(costs.OpSeconds(Product(2048, 1024, 1024)), 2048, 200);
  const double between = costs.OpSeconds(Product(256, 256, 256)) / 64;
  EXPECT_NEAR(between, 0.5, 0.01);
}

TEST(ProfileCostModelTest, KindsThatWereNotMeasuredFollowOthersWithAsMuchToDo) {
  const Op zero = ops::EntryOf(OpKind::kZero).example;
  const Op copy = ops::EntryOf(OpKind::kCopy).example;
  v1::RankProfile profile;
  AddOp(profile, zero, 2);
  const double zeroed = ops::EntryOf(OpKind::kZero).cost(zero)->bytes;
  const double copied = ops::EntryOf(OpKind::kCopy).cost(copy)->bytes;
  EXPECT_NEAR(ProfileCostModel(profile).OpSeconds(copy), 2 * copied / zeroed, 1e-3);
  EXPECT_DOUBLE_EQ(ProfileCostModel({}).OpSeconds(copy), 0);
}

TEST(ProfileCostModelTest, EachOpTakesTheEnginesOwnTimeToo) {
  v1::RankProfile profile;
  profile.set_action_seconds(0.25);
  AddOp(profile, Product(64, 64, 64), 1);
  EXPECT_NEAR(ProfileCostModel(profile).OpSeconds(Product(64, 64, 64)), 1.25, 1e-3);
}

v1::RankProfile Links() {
  v1::RankProfile profile;
  for (const char* op : {"all-gather", "all-reduce", "broadcast", "send"}) {
    for (const int64_t bytes : {1000, 3000}) {
      v1::CommunicationTime& time = *profile.add_communications();
      time.set_op(op);
      time.set_bytes(bytes);
      time.set_seconds(bytes == 1000 ? 2 : 4);
    }
  }
  return profile;
}

TEST(ProfileCostModelTest, CommunicationIsThatOfTwoRanks_AndGrowsWithTheGroup) {
  const ProfileCostModel costs(Links());
  const auto seconds = [&](CollectiveOp op, int64_t bytes, int ranks) {
    return costs.CollectiveSeconds({.op = op, .bytes = bytes}, {.ranks = ranks});
  };
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllGather, 2000, 2), 3);
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllGather, 2000, 4), 9);
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllReduce, 2000, 2), 3);
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllReduce, 2000, 4), 4);  // as 3000 bytes of two
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kBroadcast, 2000, 5), 9);  // in three turns
  EXPECT_DOUBLE_EQ(seconds(CollectiveOp::kAllGather, 2000, 1), 0);
  EXPECT_DOUBLE_EQ(costs.MessageSeconds({.bytes = 2000}, {}), 3);
}

TEST(ProfileCostModelTest, InterferenceLiesBetweenThoseOfTheNearestSizes) {
  v1::RankProfile profile;
  for (const int64_t bytes : {1 << 10, 1 << 20}) {
    v1::Interference& each = *profile.add_interference();
    each.set_bytes(bytes);
    each.set_compute_lost(bytes == 1 << 10 ? 0.1 : 0.5);
    each.set_communication_stretch(bytes == 1 << 10 ? 1 : 2);
  }
  const ProfileCostModel costs(profile);
  EXPECT_DOUBLE_EQ(costs.Beside({.bytes = 1}).compute_lost, 0.1);
  EXPECT_DOUBLE_EQ(costs.Beside({.bytes = 1 << 15}).compute_lost, 0.3);
  EXPECT_DOUBLE_EQ(costs.Beside({.bytes = 1 << 15}).stretch, 1.5);
  EXPECT_DOUBLE_EQ(costs.Beside({.bytes = 1 << 22}).stretch, 2);
  EXPECT_FALSE(ProfileCostModel({}).Beside({.bytes = 1}).any());
}

TEST(ProfileCostModelTest, InterferenceIsThatOfTheOperation_ElseOfAllReduces) {
  v1::RankProfile profile;
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather}) {
    v1::Interference& each = *profile.add_interference();
    each.set_op(Name(op));
    each.set_compute_lost(op == CollectiveOp::kAllReduce ? 0.1 : 0.5);
    each.set_communication_stretch(1);
  }
  const ProfileCostModel costs(profile);
  EXPECT_DOUBLE_EQ(costs.Beside({.op = CollectiveOp::kAllReduce}).compute_lost, 0.1);
  EXPECT_DOUBLE_EQ(costs.Beside({.op = CollectiveOp::kAllGather}).compute_lost, 0.5);
  EXPECT_DOUBLE_EQ(costs.Beside({.op = CollectiveOp::kBroadcast}).compute_lost, 0.1);
}

TEST(ProfileCostModelTest, LatenessGrowsWithTheRootOfCompute_AndIsNoneInOlderProfiles) {
  v1::RankProfile profile;
  EXPECT_EQ(ProfileCostModel(profile).LatenessSeconds(4), 0);
  profile.set_drift(0.01);
  EXPECT_DOUBLE_EQ(ProfileCostModel(profile).LatenessSeconds(1), 0.01);
  EXPECT_DOUBLE_EQ(ProfileCostModel(profile).LatenessSeconds(4), 0.02);
}

TEST(FindRanksTest, OnlyWhatWasMeasuredOnThisHostWithTheseNumbersCounts) {
  v1::Profile profile;
  profile.set_host("a");
  profile.set_isa("avx2");
  v1::RankProfile& one = *profile.add_ranks();
  one.set_ranks(2);
  one.set_threads(4);
  const auto found = FindRanks(profile, {"a", "avx2", 2, 4});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, &one);
  const auto why = [&](const ProfiledRanks& wanted) {
    return std::string(FindRanks(profile, wanted).status().message());
  };
  EXPECT_EQ(why({"b", "avx2", 2, 4}),
            "the profile is of host a, not of b: strata calibrate measures this machine");
  EXPECT_NE(why({"a", "avx512", 2, 4}).find("for avx2, not avx512"), std::string::npos);
  EXPECT_EQ(why({"a", "avx2", 1, 8}),
            "the profile has no measurement of 1 ranks x 8 threads, only of 2 x 4");
}

}  // namespace
}  // namespace strata::planner
