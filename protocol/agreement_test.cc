#include "protocol/agreement.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace strata::protocol {
namespace {

absl::Status Check(const std::vector<v1::Prepared>& ranks) {
  std::map<int, v1::Prepared> prepared;
  for (const v1::Prepared& each : ranks) prepared.emplace(prepared.size(), each);
  return CheckAgreement(prepared);
}

v1::Prepared Rank(const std::string& plan, std::vector<int> members, const std::string& digest) {
  v1::Prepared prepared;
  prepared.set_plan_digest(plan);
  v1::GroupDigest* const group = prepared.add_groups();
  group->set_group("data");
  for (const int member : members) group->add_members(member);
  group->set_digest(digest);
  return prepared;
}

TEST(AgreementTest, EqualDigestsInsideEachGroupAreFine) {
  EXPECT_TRUE(Check({Rank("p", {0, 1}, "a"), Rank("p", {0, 1}, "a"), Rank("p", {2, 3}, "b"),
                     Rank("p", {2, 3}, "b")})
                  .ok());
}

TEST(AgreementTest, AnotherPlanIsRefusedAndItsRankNamed) {
  const absl::Status status = Check({Rank("p", {0, 1}, "a"), Rank("q", {0, 1}, "a")});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("ranks 0 and 1"), absl::string_view::npos);
}

v1::Prepared OnStage(int stage, const std::string& program) {
  v1::Prepared prepared;
  prepared.set_plan_digest("p");
  prepared.set_stage(stage);
  prepared.set_program_digest(program);
  return prepared;
}

TEST(AgreementTest, StagesHaveProgramsOfTheirOwn) {
  EXPECT_TRUE(Check({OnStage(0, "x"), OnStage(1, "y"), OnStage(0, "x")}).ok());
}

TEST(AgreementTest, AnotherProgramOnTheSameStageIsRefusedAndBothRanksNamed) {
  const absl::Status status =
      Check({OnStage(0, "x"), OnStage(1, "y"), OnStage(2, "x"), OnStage(1, "x")});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "ranks 1 and 3 made different programs for stage 1 (y and x)");
}

TEST(AgreementTest, AnotherSequenceInsideAGroupIsRefused) {
  EXPECT_EQ(Check({Rank("p", {0, 1}, "a"), Rank("p", {0, 1}, "b")}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Check({Rank("p", {0, 1}, "a"), Rank("p", {1}, "a")}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(AgreementTest, GroupsThatCannotBeAreRefused) {
  EXPECT_EQ(Check({Rank("p", {1}, "a"), Rank("p", {1}, "a")}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Check({Rank("p", {0, 7}, "a")}).code(), absl::StatusCode::kFailedPrecondition);
}

v1::Prepared WithPeers(const std::vector<int>& peers) {
  v1::Prepared prepared;
  prepared.mutable_peers()->mutable_ranks()->Add(peers.begin(), peers.end());
  return prepared;
}

TEST(AgreementTest, PeersNameEachOther) {
  EXPECT_TRUE(Check({WithPeers({1}), WithPeers({0, 2}), WithPeers({1})}).ok());
  EXPECT_TRUE(Check({WithPeers({}), WithPeers({})}).ok());
}

TEST(AgreementTest, APeerThatDoesNotNameTheRankIsRefusedAndBothNamed) {
  const absl::Status status = Check({WithPeers({1}), WithPeers({0, 2}), WithPeers({})});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(status.message()),
            "rank 1 exchanges data with rank 2, which does not with rank 1");
}

TEST(AgreementTest, PeersThatCannotBeAreRefused) {
  for (const std::vector<int>& peers : {std::vector<int>{0}, {-1}, {2}, {1, 1}}) {
    EXPECT_EQ(Check({WithPeers(peers), WithPeers({0})}).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace strata::protocol
