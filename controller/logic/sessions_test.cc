// Agents and controllers that come back, and those that do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using testing::Held;
using ::testing::IsEmpty;
using testing::kInterrupted;
using ::testing::SizeIs;
using testing::TwoNodes;

TEST_F(TwoNodes, AnAgentsRestartDoesNotDisturbItsRanks) {
  h.Run("a", {"n0", "n1"});
  h.EndSession("n1");
  h.Pass(20, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::LOST);
  h.Join("n1", {Held("a", 1, {1}, true)});
  EXPECT_EQ(h.LastWelcome("n1").keep(0).epoch(), 1);
  h.Pass(40, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

TEST_F(TwoNodes, SilenceBeyondTheLeaseIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.Pass(29, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, HoursInWhichAllWereHeardFromAreNobodysSilence) {
  h.Run("a", {"n0", "n1"});
  h.PassHeard(7200, {});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::READY);
}

TEST_F(TwoNodes, TimeInWhichAllButOneWereHeardFromIsThatOnesSilence) {
  h.Run("a", {"n0", "n1"});
  h.PassHeard(7200, {});
  h.PassHeard(29, {"n1"});
  EXPECT_EQ(h.Node("n0").state(), v1::Node::READY);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::LOST);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.PassHeard(2, {"n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_EQ(h.Job("a").events(0).cause(), "node_lost");
}

TEST_F(TwoNodes, ANodeWithoutASessionIsSilentAlthoughNobodySaysSo) {
  h.Run("a", {"n0", "n1"});
  h.EndSession("n1");
  h.PassHeard(31, {});
  EXPECT_EQ(h.Node("n0").state(), v1::Node::READY);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, ANodeThatComesBackWithoutItsRanksIsAFailure) {
  h.Run("a", {"n0", "n1"});
  h.Join("n1");
  EXPECT_EQ(h.LastWelcome("n1").keep_size(), 0);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);  // it may yet say how they ended
  h.Pass(1.5, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.SayEnded("n0", "a", 1, kInterrupted);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

v1::AgentMessage Beat(int device, v1::DeviceState::Health health, const std::string& reason) {
  v1::AgentMessage message;
  v1::DeviceState& state = *message.mutable_heartbeat()->add_device_states();
  state.set_device(device);
  state.set_health(health);
  state.set_reason(reason);
  return message;
}

TEST_F(TwoNodes, AnUnhealthyDeviceTakesNoNewRanksUntilItsAgentSaysOtherwise) {
  h.Join("n2", {}, 2);
  h.Say("n2", Beat(1, v1::DeviceState::UNHEALTHY, "Xid 79: it has fallen off the bus"));
  EXPECT_EQ(h.Node("n2").free(), 1);
  EXPECT_EQ(h.told_nodes.back().unhealthy_devices().at(1), "Xid 79: it has fallen off the bus");
  ASSERT_TRUE(h.Create(Harness::Request("a", 4)).ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED);
  h.Say("n2", Beat(1, v1::DeviceState::DEGRADED, "hot"));
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_THAT(h.Node("n2").unhealthy_devices(), IsEmpty());
}

TEST(UnhealthyDevice, IsReplacedByAHealthyOneOfItsNodeOnceItsAgentHasEndedItsRank) {
  Harness h;
  h.Join("n0", {}, 2);
  h.Run("a", {"n0"});
  const int device = h.Job("a").placement(0).device();
  h.Say("n0", Beat(device, v1::DeviceState::UNHEALTHY, "Xid 79"));
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.SayEnded("n0", "a", 1, v1::Finished::FAILED, "Xid 79", 0);
  h.Pass(60, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").placement(0).device(), 1 - device);
}

TEST_F(TwoNodes, HealthOfDevicesThatANodeDoesNotHaveSaysNothing) {
  h.Say("n0", Beat(7, v1::DeviceState::UNHEALTHY, "?"));
  h.Say("n1", Beat(-1, v1::DeviceState::UNHEALTHY, "?"));
  EXPECT_EQ(h.Node("n0").free() + h.Node("n1").free(), 2);
}

TEST_F(TwoNodes, ANodeThatComesBackWithSomeOfItsRanksIsAFailure) {
  h.Join("n2", {}, 2);
  (void)h.Create(Harness::Request("a", 4));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.SayPrepared("n2", "a", 1, {2, 3});
  for (const char* node : {"n0", "n1", "n2"}) h.SayRunning(node, "a", 1);
  ASSERT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Join("n2", {Held("a", 1, {2}, true)}, 2);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("rank 3 on n2 is gone"));
}

TEST_F(TwoNodes, AControllersRestartDisturbsNothing) {
  h.Run("a", {"n0", "n1"});
  h.SayCommit("n0", "a", 1, 20, "m20");
  const int64_t version = h.core->resource_version(), term = h.core->controller_term();
  h.RestartController();
  EXPECT_EQ(h.core->controller_term(), term + 1);
  EXPECT_GE(h.core->resource_version(), version);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n0").state(), v1::Node::UNKNOWN);
  h.Pass(20);
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  h.Pass(60, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
  h.SayCommit("n0", "a", 1, 40, "m40");
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
}

TEST_F(TwoNodes, AfterAControllersRestartAnEpochThatNobodyHoldsIsStartedAnew) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Join("n0");
  h.Pass(1.5, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.Join("n1");
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

// Its ranks may have trained: others of the same epoch may not begin beside them.
TEST_F(TwoNodes, AfterAControllersRestartAStartedEpochIsNotPreparedAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.RestartController();
  h.Take("n1");
  h.Join("n1");
  EXPECT_THAT(h.Take("n1"), IsEmpty());
  h.Pass(1.5, {"n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
  h.Join("n0");
  EXPECT_EQ(h.Job("a").epoch(), 2);
}

TEST_F(TwoNodes, AfterAControllersRestartAStartIsSaidAgainOnceAllHavePreparedAgain) {
  (void)h.Create(Harness::Request("a", 2));
  h.SayPrepared("n0", "a", 1, {0});
  h.SayPrepared("n1", "a", 1, {1});
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, false)});
  h.SayPrepared("n0", "a", 1, {0});
  h.Take("n0");
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  h.SayPrepared("n1", "a", 1, {1});
  EXPECT_THAT(h.Take("n0").back().start().addresses(), SizeIs(2));
  h.SayRunning("n0", "a", 1);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Job("a").epoch(), 1);
}

TEST_F(TwoNodes, AfterAControllersRestartNodesHaveTheLeaseAndAGraceToComeBack) {
  h.Run("a", {"n0", "n1"});
  h.RestartController();
  h.Reconnect("n0", {Held("a", 1, {0}, true)});
  h.Pass(33, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(2, {"n0"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RECOVERING);
}

TEST_F(TwoNodes, AnEpochFromBeforeIsStoppedAndBlocksItsNodeUntilItIsGone) {
  h.Join("n2", {Held("forgotten", 3, {0}, true)});
  EXPECT_EQ(h.LastWelcome("n2").keep_size(), 0);
  const auto stop = h.Take("n2");
  ASSERT_THAT(stop, SizeIs(1));
  EXPECT_EQ(stop[0].stop().epoch().epoch(), 3);
  EXPECT_EQ(h.Node("n2").free(), 0);
  h.SayEnded("n2", "forgotten", 3, kInterrupted);
  EXPECT_EQ(h.Node("n2").free(), 1);
}

TEST_F(TwoNodes, OfTwoAgentsOfANodeTheOlderIsDismissedForGood) {
  const uint64_t old_session = h.SessionOf("n1"), old = h.IncarnationOf("n1");
  h.Join("n1");
  ASSERT_THAT(h.dismissed, SizeIs(1));
  EXPECT_EQ(h.dismissed[0].incarnation, old);
  EXPECT_EQ(h.dismissed[0].session, old_session);
  v1::AgentMessage message;
  message.set_incarnation(old);
  message.mutable_register_()->set_node("n1");
  message.mutable_register_()->set_devices(1);
  Effects effects;
  h.core->OnAgent(99, message, effects);
  ASSERT_THAT(effects.messages, SizeIs(1));
  EXPECT_TRUE(effects.messages[0].message->has_dismiss());
  EXPECT_EQ(h.Node("n1").incarnation(), h.IncarnationOf("n1"));
}

TEST_F(TwoNodes, WhatAReplacedSessionStillSaysIsIgnored) {
  h.Run("a", {"n0", "n1"});
  const uint64_t old_session = h.SessionOf("n1");
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  v1::AgentMessage message;
  message.set_incarnation(h.IncarnationOf("n1"));
  message.mutable_ended()->mutable_epoch()->set_job("jobs/a");
  message.mutable_ended()->mutable_epoch()->set_epoch(1);
  Effects effects;
  h.core->OnAgent(old_session, message, effects);
  h.core->OnSessionEnd(old_session, effects);
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::READY);
}

TEST_F(TwoNodes, ALateRegisterOfAnOlderSessionDoesNotReplaceTheNewer) {
  h.Run("a", {"n0", "n1"});
  v1::AgentMessage late;
  late.set_incarnation(h.IncarnationOf("n1"));
  late.mutable_register_()->set_node("n1");
  late.mutable_register_()->set_devices(1);
  const uint64_t older = h.SessionOf("n1");
  h.Reconnect("n1", {Held("a", 1, {1}, true)});
  Effects effects;
  h.core->OnAgent(older, late, effects);
  ASSERT_THAT(effects.messages, SizeIs(1));
  EXPECT_EQ(effects.messages[0].session, older);
  EXPECT_TRUE(effects.messages[0].message->has_dismiss());
  h.core->OnSessionEnd(older, effects);
  h.Pass(10, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::READY);
}

TEST_F(TwoNodes, WhoSpeaksOnAReplacedSessionIsDismissed) {
  const uint64_t older = h.SessionOf("n1");
  h.Reconnect("n1", {});
  v1::AgentMessage message;
  message.set_incarnation(h.IncarnationOf("n1"));
  message.mutable_heartbeat();
  Effects effects;
  h.core->OnAgent(older, message, effects);
  ASSERT_THAT(effects.messages, SizeIs(1));
  EXPECT_EQ(effects.messages[0].session, older);
  EXPECT_TRUE(effects.messages[0].message->has_dismiss());
}

TEST_F(TwoNodes, AStandstillOfTheControllerIsNoSilenceOfTheNodes) {
  h.Run("a", {"n0", "n1"});
  h.Pass(1, {"n0", "n1"});
  h.StandStill(100);
  h.Pass(1, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_EQ(h.Node("n1").state(), v1::Node::READY);
}

}  // namespace
}  // namespace strata::controller
