// Watches and progress, without gRPC.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/service/streams/hub_test.h"
#include "controller/service/streams/progress_hub.h"
#include "controller/service/streams/watch_hub.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Watching = Listening<v1::WatchJobsResponse>;

std::vector<std::string> NamesOf(const Watching& watching) {
  std::vector<std::string> names;
  for (const auto& change : watching.messages) {
    names.push_back(change.has_job() ? change.job().name() : "bookmark");
  }
  return names;
}

class WatchHubTest : public HubTest {
 protected:
  std::shared_ptr<Watching> Watch(int64_t version, const std::string& name = "",
                                  size_t most = 1000) {
    auto watching = std::make_shared<Watching>(most);
    hub_.Subscribe(core_, name, version, watching, [](const v1::Job&) { return true; });
    return watching;
  }
  WatchHub::Options Small() {
    WatchHub::Options options;
    options.most_changes = 4;
    options.most_watchers = 3;
    return options;
  }
  WatchHub hub_{&clock_, Small()};
};

TEST_F(WatchHubTest, ChangesAfterTheVersionComeInOrderThenLive) {
  Create(hub_, "a");
  const int64_t after_a = core_.resource_version();
  Create(hub_, "b");
  const auto watching = Watch(after_a);
  Create(hub_, "c");
  EXPECT_THAT(NamesOf(*watching), ElementsAre("jobs/b", "jobs/c"));
  EXPECT_GT(watching->messages[1].resource_version(), watching->messages[0].resource_version());
  EXPECT_THAT(NamesOf(*Watch(0)), ElementsAre("jobs/a", "jobs/b", "jobs/c"));
}

TEST_F(WatchHubTest, OneJobIsWatchedAlone) {
  Create(hub_, "a");
  Create(hub_, "b");
  const auto watching = Watch(0, "jobs/b");
  Cancel(hub_, "a");
  Cancel(hub_, "b");
  EXPECT_THAT(NamesOf(*watching), ElementsAre("jobs/b", "jobs/b"));
  EXPECT_EQ(watching->messages.back().job().state(), v1::Job::CANCELLED);
  EXPECT_EQ(Watch(0, "jobs/none")->status.code(), absl::StatusCode::kNotFound);
}

TEST_F(WatchHubTest, DeletionsAreToldInTheirOrderAndCountAsMissed) {
  Create(hub_, "a");
  Create(hub_, "b");
  const int64_t before = core_.resource_version();
  const auto watching = Watch(before);
  Effects effects;  // of one batch: the name is free, and taken again
  v1::DeleteJobRequest request;
  request.set_name("jobs/a");
  request.set_force(true);
  ASSERT_TRUE(core_.DeleteJob(request, effects).ok());
  v1::CreateJobRequest again = LogicRequest("a");
  again.mutable_job()->set_directory(folder_ + "/other");
  ASSERT_TRUE(core_.CreateJob(again, effects).ok());
  hub_.OnEffects(core_, effects);
  std::vector<bool> deleted;
  for (const auto& change : watching->messages) deleted.push_back(change.deleted());
  ASSERT_FALSE(deleted.empty());
  EXPECT_FALSE(deleted.back());
  EXPECT_TRUE(deleted[deleted.size() - 2]);
  hub_.OnLoad(core_);
  EXPECT_EQ(Watch(before, "jobs/b")->status.code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchHubTest, VersionsThatAreNoLongerKnownAreRefused) {
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) Create(hub_, name);
  const auto old = Watch(1);
  EXPECT_EQ(old->status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(old->messages, IsEmpty());
  EXPECT_THAT(NamesOf(*Watch(2)), ElementsAre("jobs/c", "jobs/d", "jobs/e", "jobs/f"));
  EXPECT_EQ(Watch(core_.resource_version() + 1)->status.code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchHubTest, AfterARestartOnlyThoseWhoMissedSomethingAreRefused) {
  Create(hub_, "a");
  const int64_t after_a = core_.resource_version();
  Create(hub_, "b");
  hub_.OnLoad(core_);
  EXPECT_EQ(Watch(after_a)->status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(Watch(after_a, "jobs/a")->ended);
  const auto watching = Watch(core_.resource_version());
  Create(hub_, "c");
  EXPECT_THAT(NamesOf(*watching), ElementsAre("jobs/c"));
}

TEST_F(WatchHubTest, BookmarksComeToThoseWhoHaveReadAll) {
  const auto watching = Watch(0);
  const auto behind = Watch(0);
  behind->idle_now = false;
  hub_.OnTick(core_);
  hub_.OnTick(core_);
  clock_.Advance(5.1);
  hub_.OnTick(core_);
  EXPECT_THAT(NamesOf(*watching), ElementsAre("bookmark", "bookmark"));
  EXPECT_EQ(watching->messages[0].resource_version(), core_.resource_version());
  EXPECT_THAT(behind->messages, IsEmpty());
}

TEST_F(WatchHubTest, WatchersAreLimitedAndForgottenWhenTheyEnd) {
  const auto slow = Watch(0, "", /*most=*/1);
  Watch(0);
  Watch(0);
  EXPECT_EQ(Watch(0)->status.code(), absl::StatusCode::kResourceExhausted);
  Create(hub_, "a");
  Create(hub_, "b");
  EXPECT_EQ(slow->messages.size(), 1u);
  EXPECT_FALSE(Watch(0)->ended);
}

TEST_F(WatchHubTest, StopEndsAllWatchers) {
  const auto watching = Watch(0);
  hub_.OnStop();
  EXPECT_EQ(watching->status.code(), absl::StatusCode::kUnavailable);
}

using Following = Listening<v1::JobProgress>;

class ProgressHubTest : public HubTest {
 protected:
  std::shared_ptr<Following> Follow(const std::string& name, const ProgressPosition& position) {
    auto following = std::make_shared<Following>();
    hub_.Subscribe(core_, "jobs/" + name, position, following);
    return following;
  }
  static std::vector<std::string> StepsOf(const Following& following) {
    std::vector<std::string> steps;
    for (const auto& progress : following.messages) {
      steps.push_back(progress.has_job()
                          ? v1::Job::State_Name(progress.job().state())
                          : absl::StrCat(progress.step().epoch(), ":", progress.step().step()));
    }
    return steps;
  }
  ProgressHub hub_{&clock_, {}};
};

TEST_F(ProgressHubTest, RecentStepsThenLiveOnesWithoutAGap) {
  Create(hub_, "a");
  for (int step = 1; step <= 5; ++step) hub_.OnEffects(core_, Step("a", 1, step));
  const auto known = Follow("a", {1, 3});
  const auto unknown_epoch = Follow("a", {0, 4});
  hub_.OnEffects(core_, Step("a", 1, 6));
  hub_.OnEffects(core_, Step("a", 2, 4));
  EXPECT_THAT(StepsOf(*known), ElementsAre("1:4", "1:5", "QUEUED", "1:6", "2:4"));
  EXPECT_THAT(StepsOf(*unknown_epoch), ElementsAre("1:5", "QUEUED", "1:6", "2:4"));
  EXPECT_THAT(StepsOf(*Follow("a", {1, 6})), ElementsAre("2:4", "QUEUED"));
}

TEST_F(ProgressHubTest, EndsAfterTheTerminalState) {
  Create(hub_, "a");
  const auto following = Follow("a", {});
  hub_.OnEffects(core_, Step("a", 1, 1));
  Cancel(hub_, "a");
  EXPECT_THAT(StepsOf(*following), ElementsAre("QUEUED", "1:1", "CANCELLED"));
  EXPECT_TRUE(following->ended);
  EXPECT_TRUE(following->status.ok());
  const auto late = Follow("a", {});
  EXPECT_THAT(StepsOf(*late), ElementsAre("1:1", "CANCELLED"));
  EXPECT_TRUE(late->ended);
  clock_.Advance(61);
  hub_.OnTick(core_);
  EXPECT_THAT(StepsOf(*Follow("a", {})), ElementsAre("CANCELLED"));
}

TEST_F(ProgressHubTest, UnknownJobsAreRefusedAndTheirProgressDropped) {
  hub_.OnEffects(core_, Step("none", 1, 1));
  EXPECT_EQ(Follow("none", {})->status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace strata::controller
