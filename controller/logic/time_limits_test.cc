// For how long jobs may hold devices, and what comes first when that and other wishes meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/logic/refusal.h"
#include "controller/logic/two_nodes.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using TimeLimits = testing::StoppedJobs;

TEST_F(TimeLimits, AJobOutOfTimeFailsAfterACheckpoint) {
  ASSERT_TRUE(h.Create(Limited("a", 2, 60)).ok());
  Start("a");
  h.Pass(59, {"n0", "n1"});
  EXPECT_THAT(h.Take("n0"), IsEmpty());
  h.Pass(2, {"n0", "n1"});
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
  StopAt(40);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
  EXPECT_EQ(h.Job("a").checkpoint().step(), 40);
  EXPECT_EQ(h.Job("a").events(0).cause(), "time_limit");
  EXPECT_THAT(h.Job("a").reason(), HasSubstr("time_limit 1m"));
}

TEST_F(TimeLimits, AJobThatIsBeingSuspendedIsSuspendedThoughItsTimeRunsOut) {
  ASSERT_TRUE(h.Create(Limited("a", 2, 60)).ok());
  Start("a");
  h.Pass(50, {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  h.Pass(20, {"n0", "n1"});
  StopAt(30);
  EXPECT_EQ(h.Job("a").state(), v1::Job::QUEUED) << h.Job("a").reason();
  EXPECT_TRUE(h.Job("a").suspended());
  EXPECT_EQ(ReasonOf(h.Resume("a").status()), "TIME_USED");
  v1::Job changes;
  changes.mutable_spec()->mutable_time_limit()->set_seconds(200);
  ASSERT_TRUE(h.Update("a", changes, {"spec.time_limit"}).ok());
  ASSERT_TRUE(h.Resume("a").ok());
  EXPECT_EQ(h.Job("a").state(), v1::Job::STARTING);
}

TEST_F(TimeLimits, AJobThatIsOutOfTimeIsNotSuspended) {
  ASSERT_TRUE(h.Create(Limited("a", 2, 60)).ok());
  Start("a");
  h.Pass(61, {"n0", "n1"});
  EXPECT_EQ(ReasonOf(h.Suspend("a").status()), "BEING_STOPPED");
  StopAt(30);
  EXPECT_EQ(h.Job("a").state(), v1::Job::FAILED);
}

TEST_F(TimeLimits, RunTimeIsThatOfAllStartsAndOutlivesTheController) {
  ASSERT_TRUE(h.Create(Limited("a", 2, 100)).ok());
  Start("a");
  h.Pass(40, {"n0", "n1"});
  ASSERT_TRUE(h.Suspend("a").ok());
  StopAt(10);
  h.Pass(500, {"n0", "n1"});  // waiting costs nothing
  EXPECT_NEAR(static_cast<double>(h.Job("a").run_time().seconds()), 40, 1);
  ASSERT_TRUE(h.Resume("a").ok());
  Start("a");
  h.Pass(30, {"n0", "n1"});
  h.RestartController();
  h.Reconnect("n0", {testing::Held("a", 2, {0}, true)});
  h.Reconnect("n1", {testing::Held("a", 2, {1}, true)});
  h.SayBeat("n0", "a", 2, 0, "");
  h.Pass(25, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  EXPECT_NEAR(static_cast<double>(h.core->ShowJob(h.Job("a")).run_time().seconds()), 95, 2);
  h.Take("n0");
  h.Pass(7, {"n0", "n1"});
  EXPECT_TRUE(h.Take("n0").back().stop().checkpoint());
}

TEST_F(TimeLimits, AMoreGenerousLimitCountsALesserOneThanIsUsedIsRefused) {
  ASSERT_TRUE(h.Create(Limited("a", 2, 60)).ok());
  Start("a");
  h.Pass(50, {"n0", "n1"});
  v1::Job changes;
  changes.mutable_spec()->mutable_time_limit()->set_seconds(30);
  EXPECT_EQ(ReasonOf(h.Update("a", changes, {"spec.time_limit"}).status()), "TIME_USED");
  changes.mutable_spec()->mutable_time_limit()->set_seconds(90);
  ASSERT_TRUE(h.Update("a", changes, {"spec.time_limit"}).ok());
  h.Pass(20, {"n0", "n1"});
  EXPECT_EQ(h.Job("a").state(), v1::Job::RUNNING);
  h.Pass(30, {"n0", "n1"});
  EXPECT_EQ(ReasonOf(h.Update("a", {}, {"spec.time_limit"}).status()), "BEING_STOPPED");
}

// A short job of known duration goes before the reserved one where an unknown one may not.
TEST_F(TimeLimits, AKnownDurationLetsAJobBeBackfilled) {
  ASSERT_TRUE(h.Create(Limited("long", 1, 1000)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("wide", 2)).ok());
  ASSERT_TRUE(h.Create(Harness::Request("unknown", 1)).ok());
  EXPECT_EQ(h.Job("unknown").state(), v1::Job::QUEUED);
  ASSERT_TRUE(h.Create(Limited("short", 1, 500)).ok());
  EXPECT_EQ(h.Job("long").state(), v1::Job::STARTING);
  EXPECT_EQ(h.Job("wide").state(), v1::Job::QUEUED);
  EXPECT_EQ(h.Job("short").state(), v1::Job::STARTING);
}

}  // namespace
}  // namespace strata::controller
