// That records of nodes stay few: how many there may be, and when silent ones go.
#include "controller/logic/node_removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"
#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kDay = 86400;

// Nodes n0, n1 and n2, of which n2 falls silent; forgotten after a week.
class SilentNode : public ::testing::Test {
 protected:
  SilentNode() {
    for (const char* node : {"n0", "n1", "n2"}) h.Join(node);
  }
  void FallSilent() {
    h.EndSession("n2");
    h.Pass(60, {"n0", "n1"});
    EXPECT_EQ(h.Node("n2").state(), v1::Node::LOST);
  }
  size_t Records() const {
    size_t count = 0;
    for (const auto& [key, write] : h.records) count += key.first == "nodes" ? 1 : 0;
    return count;
  }
  void Forget(double seconds) {
    v1::Policy policy = h.core->policy();
    policy.mutable_timing()->set_forget_node_seconds(seconds);
    ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  }

  Harness h;
};

TEST_F(SilentNode, IsForgottenAfterAWeekAndWatchersAreTold) {
  FallSilent();
  h.PassHeard(6 * kDay, {});
  EXPECT_THAT(h.core->Nodes(), SizeIs(3));
  const int64_t version = h.core->resource_version();
  h.PassHeard(kDay, {});
  EXPECT_THAT(h.core->Nodes(), SizeIs(2));
  EXPECT_EQ(Records(), 2);
  ASSERT_THAT(h.deleted_nodes, SizeIs(1));
  EXPECT_EQ(h.deleted_nodes[0].name(), "nodes/n2");
  EXPECT_GT(h.deleted_nodes[0].resource_version(), version);
  h.RestartController();
  EXPECT_THAT(h.core->Nodes(), SizeIs(2));
  EXPECT_EQ(h.core->removed_nodes().Since("nodes/n2"), 0) << "its certificate stays good";
  h.Join("n2");  // as a new one
  EXPECT_EQ(h.Node("n2").state(), v1::Node::READY);
}

TEST_F(SilentNode, KeepsItsRecordWhereItWasLeftOutOfUse) {
  ASSERT_TRUE(h.Drain("n2", true, "disk").ok());
  FallSilent();
  h.PassHeard(30 * kDay, {});
  EXPECT_EQ(h.Node("n2").drain_reason(), "disk");
  EXPECT_THAT(h.deleted_nodes, IsEmpty());
}

TEST_F(SilentNode, KeepsItsRecordWhileAJobWaitsForItOrItsConnectionIsOpen) {
  h.Run("a", {"n0", "n1", "n2"});
  Forget(31);
  h.Pass(60, {"n0", "n1"});  // in its session
  EXPECT_EQ(h.Node("n2").state(), v1::Node::LOST);
  EXPECT_THAT(h.core->Nodes(), SizeIs(3));
  EXPECT_THAT(h.deleted_nodes, IsEmpty());
  h.EndSession("n2");
  h.Pass(10, {"n0", "n1"});
  for (const char* node : {"n0", "n1"}) h.SayEnded(node, "a", 1, v1::Finished::INTERRUPTED);
  v1::CancelJobRequest at_once;
  ASSERT_TRUE(h.Cancel("a", at_once).ok());
  h.Pass(60, {"n0", "n1"});
  EXPECT_THAT(h.core->Nodes(), SizeIs(2)) << h.Job("a").reason();
}

TEST_F(SilentNode, IsNotForgottenWhereThePolicySaysNever) {
  Forget(0);
  FallSilent();
  h.PassHeard(1000 * kDay, {});
  EXPECT_THAT(h.core->Nodes(), SizeIs(3));
}

TEST_F(SilentNode, StaysSoOverRestartsOfTheController) {
  FallSilent();
  for (int i = 0; i < 4; ++i) {
    h.PassHeard(2 * kDay, {});
    h.RestartController();
    for (const char* node : {"n0", "n1"}) h.Join(node);
  }
  EXPECT_THAT(h.core->Nodes(), SizeIs(2)) << "it was silent for eight days, though never for three";
}

TEST_F(SilentNode, ThatCameBackIsNotSilentSinceBefore) {
  FallSilent();
  h.PassHeard(6 * kDay, {});
  h.Join("n2");
  h.EndSession("n2");
  h.RestartController();
  for (const char* node : {"n0", "n1"}) h.Join(node);
  h.Pass(60, {"n0", "n1"});
  h.PassHeard(2 * kDay, {});
  EXPECT_EQ(h.Node("n2").state(), v1::Node::LOST);
}

TEST_F(SilentNode, IsNotForgottenByAControllerThatHearsNobody) {
  for (const char* node : {"n0", "n1", "n2"}) h.EndSession(node);
  h.Pass(60);
  ASSERT_TRUE(h.core->cut_off());
  h.PassHeard(30 * kDay, {});
  EXPECT_THAT(h.core->Nodes(), SizeIs(3));
}

TEST(NodeRecords, PodsWithFreshNamesDoNotGrowThemForEver) {
  Harness h;
  v1::Policy policy;
  policy.mutable_timing()->set_forget_node_seconds(3600);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Join("stays");
  h.Join("too");
  h.Join("three");
  for (int i = 0; i < 50; ++i) {
    const std::string pod = absl::StrCat("pod-", i);
    h.Join(pod);
    h.EndSession(pod);
    for (int minutes = 0; minutes < 60; minutes += 10) h.PassHeard(600, {});
    EXPECT_LE(h.core->Nodes().size(), 6) << i;
  }
  size_t rows = 0;
  for (const auto& [key, write] : h.records) {
    rows += key.second.find("pod-") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(rows, 3);
}

TEST(NodeRecords, OneMoreThanTheLimitIsRefusedWithWhatToDoAndKnownNodesComeBack) {
  Harness h;
  v1::Policy policy;
  policy.mutable_scheduling()->set_max_nodes(2);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Join("n0");
  h.Join("n1");
  EXPECT_THAT(h.refused, IsEmpty());
  h.Join("n2");
  ASSERT_THAT(h.refused, SizeIs(1));
  EXPECT_EQ(h.refused[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(h.refused[0]), "TOO_MANY_NODES");
  EXPECT_THAT(std::string(h.refused[0].message()),
              HasSubstr("the cluster has 2 nodes, and scheduling.max_nodes allows 2: n2 is not"));
  EXPECT_THAT(h.core->Nodes(), SizeIs(2));
  EXPECT_FALSE(h.records.contains({"nodes", "nodes/n2"}));
  h.Join("n0");  // anew
  EXPECT_THAT(h.refused, SizeIs(1));

  h.RestartController();
  for (const char* node : {"n0", "n1"}) h.Join(node);
  EXPECT_THAT(h.refused, SizeIs(1));
  policy.mutable_scheduling()->set_max_nodes(1);  // those that there are stay
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Join("n1");
  EXPECT_THAT(h.refused, SizeIs(1));
  policy.mutable_scheduling()->set_max_nodes(3);
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  h.Join("n2");
  EXPECT_THAT(h.core->Nodes(), SizeIs(3));
}

}  // namespace
}  // namespace strata::controller
