// Watches, progress and logs, without gRPC.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/files/jsonl.h"
#include "controller/service/files/line_reader.h"
#include "controller/service/streams/log_book.h"
#include "controller/service/streams/progress_hub.h"
#include "controller/service/streams/watch_hub.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// A core whose effects go to one listener.
class HubTest : public testing::Test {
 protected:
  HubTest() {
    static_cast<void>(core_.Load({}, 0).ok());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~HubTest() override { fs::remove_all(folder_); }

  void Create(Reactor::Listener& listener, const std::string& name) {
    Effects effects;
    v1::CreateJobRequest request = LogicRequest(name);
    request.mutable_job()->set_directory(absl::StrCat(folder_, "/", name));
    ASSERT_TRUE(core_.CreateJob(request, effects).ok());
    listener.OnEffects(core_, effects);
  }
  void Cancel(Reactor::Listener& listener, const std::string& name) {
    Effects effects;
    v1::CancelJobRequest request;
    request.set_name("jobs/" + name);
    ASSERT_TRUE(core_.CancelJob(request, effects).ok());
    listener.OnEffects(core_, effects);
  }
  static Effects Step(const std::string& name, int64_t epoch, int64_t step) {
    Effects effects;
    effects.progress.push_back({"jobs/" + name, {}});
    effects.progress[0].progress.mutable_step()->set_epoch(epoch);
    effects.progress[0].progress.mutable_step()->set_step(step);
    return effects;
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
  common::ManualClock clock_;
  Core core_{&clock_};
};

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

v1::LogLine Line(const std::string& text, int32_t rank = 0) {
  v1::LogLine line;
  line.mutable_time()->set_seconds(1700000000);
  line.mutable_time()->set_nanos(250000000);
  line.set_epoch(2);
  line.set_rank(rank);
  line.set_text(text);
  return line;
}

using Reading = Listening<v1::LogLine>;

class LogBookTest : public HubTest {
 protected:
  LogBookTest() {
    book_.OnLoad(core_);
    Create(book_, "a");
    v1::JobRecord job = *core_.FindJob("jobs/a");
    job.set_epoch(2);
    job.add_placement()->set_node("nodes/n0");
    Effects effects;
    effects.changed.push_back(job);
    book_.OnEffects(core_, effects);
  }
  static LogBook::Options Small() {
    LogBook::Options options;
    options.most_bytes = 2000;
    options.most_recent = 3;
    options.longest_line = 100;
    options.most_tail = 50;
    return options;
  }
  static v1::StreamLogsRequest Asked(int32_t rank = LogBook::kAllRanks, const char* cursor = "") {
    v1::StreamLogsRequest request;
    request.set_name("jobs/a");
    request.set_rank(rank);
    request.set_cursor(cursor);
    return request;
  }
  void Append(const v1::LogLine& line) { book_.Append("nodes/n0", "jobs/a", "", line); }
  // Behind all that the pool has to do for the job.
  template <typename Result>
  Result InPool(const std::function<Result()>& work) {
    std::promise<Result> done;
    const absl::Status submitted = pool_.Submit(
        "jobs/a",
        {[&] { done.set_value(work()); }, [](const absl::Status& why) { ADD_FAILURE() << why; }});
    EXPECT_TRUE(submitted.ok());
    return done.get_future().get();
  }
  void Settle() {
    InPool<int>([] { return 0; });
  }
  absl::StatusOr<std::vector<v1::LogLine>> Read(LogBook& book, const v1::StreamLogsRequest& asked,
                                                LogBook::Follower follower = nullptr) {
    const auto source = book.Follow(asked, std::move(follower));
    if (!source.ok()) return source.status();
    std::vector<v1::LogLine> lines;
    for (;;) {
      const auto some = InPool<absl::StatusOr<std::vector<v1::LogLine>>>(*source);
      if (!some.ok()) return some.status();
      if (some->empty()) return lines;
      lines.insert(lines.end(), some->begin(), some->end());
    }
  }
  std::vector<std::string> Texts(const v1::StreamLogsRequest& asked) {
    std::vector<std::string> texts;
    const auto lines = Read(book_, asked);
    EXPECT_TRUE(lines.ok()) << lines.status();
    if (lines.ok()) {
      for (const v1::LogLine& line : *lines) texts.push_back(line.text());
    }
    return texts;
  }
  FilePool pool_{{}};
  LogBook book_{Small(), &pool_};
};

TEST_F(LogBookTest, LinesOutliveTheControllerAndFollowersGetLaterOnes) {
  Append(Line("one\n\"two\" \xe2\x80\xa6"));
  const auto reading = std::make_shared<Reading>();
  const auto before = Read(book_, Asked(), reading);
  ASSERT_TRUE(before.ok());
  ASSERT_EQ(before->size(), 1u);
  EXPECT_EQ(before->front().text(), "one\n\"two\" \xe2\x80\xa6");
  Append(Line("three"));
  Settle();
  ASSERT_EQ(reading->messages.size(), 1u);
  EXPECT_EQ(reading->messages[0].text(), "three");

  LogBook second(Small(), &pool_);
  EXPECT_EQ(second.Follow(Asked(), nullptr).status().code(), absl::StatusCode::kUnavailable);
  second.OnLoad(core_);
  const auto again = Read(second, Asked());
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ(again->front().time().seconds(), 1700000000);
  EXPECT_EQ(again->front().time().nanos() / 1000000, 250);
  EXPECT_EQ(again->front().epoch(), 2);
  EXPECT_EQ(again->back().text(), "three");
}

TEST_F(LogBookTest, RanksEpochsTimesAndTailsAreChosen) {
  Append(Line("of 0", 0));
  Append(Line("of 1", 1));
  Append(Line("of 3", 3));
  Append(Line("of the agent", -1));
  EXPECT_THAT(Texts(Asked(1)), ElementsAre("of 1", "of the agent"));
  v1::StreamLogsRequest asked = Asked();
  asked.add_ranks(0);
  asked.add_ranks(3);
  EXPECT_THAT(Texts(asked), ElementsAre("of 0", "of 3", "of the agent"));
  asked.set_tail(2);
  EXPECT_THAT(Texts(asked), ElementsAre("of 3", "of the agent"));
  asked = Asked();
  asked.set_epoch(1);
  EXPECT_THAT(Texts(asked), IsEmpty());
  asked = Asked();
  asked.mutable_since()->set_seconds(1700000001);
  EXPECT_THAT(Texts(asked), IsEmpty());
}

TEST_F(LogBookTest, LinesOfNodesThatAreNoMembersAreRefused) {
  book_.Append("nodes/impostor", "jobs/a", "", Line("forged"));
  book_.Append("nodes/n0", "jobs/a", "of an earlier job of that name", Line("late"));
  v1::LogLine other = Line("of an epoch that never was");
  other.set_epoch(7);
  Append(other);
  Append(Line("true"));
  EXPECT_THAT(Texts(Asked()), ElementsAre("true"));
}

TEST_F(LogBookTest, CursorGoesOnBehindItsLineAndIsOutOfRangeOnceThatWasRotatedAway) {
  for (int i = 0; i < 3; ++i) Append(Line(absl::StrCat("line ", i)));
  const auto lines = Read(book_, Asked());
  ASSERT_TRUE(lines.ok());
  ASSERT_EQ(lines->size(), 3u);
  const std::string cursor = lines->at(1).cursor();
  EXPECT_THAT(Texts(Asked(-1, cursor.c_str())), ElementsAre("line 2"));
  EXPECT_EQ(Read(book_, Asked(-1, "1000")).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Read(book_, Asked(-1, "x")).status().code(), absl::StatusCode::kInvalidArgument);
  for (int i = 3; i < 300; ++i) Append(Line(absl::StrCat("line ", i)));
  EXPECT_EQ(Read(book_, Asked(-1, cursor.c_str())).status().code(), absl::StatusCode::kOutOfRange);

  LogBook second(Small(), &pool_);  // numbers go on after a restart
  second.OnLoad(core_);
  const auto again = Read(second, Asked());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->back().cursor(), "300");
}

TEST_F(LogBookTest, FilesAreBounded) {
  for (int i = 0; i < 300; ++i) Append(Line(absl::StrCat("line ", i)));
  Append(Line(std::string(10000, 'x')));
  const auto texts = Texts(Asked());
  EXPECT_LT(fs::file_size(folder_ + "/a/log.jsonl"), 2200u);
  EXPECT_LT(fs::file_size(folder_ + "/a/log.jsonl.1"), 2200u);
  ASSERT_GT(texts.size(), 20u);
  EXPECT_EQ(texts[texts.size() - 2], "line 299");
  EXPECT_LT(texts.back().size(), 120u);
}

TEST_F(LogBookTest, WithoutAFileTheLastLinesAreStillKnown) {
  fs::create_directories(folder_ + "/a/log.jsonl");  // in the file's place
  for (int i = 0; i < 5; ++i) Append(Line(absl::StrCat("line ", i)));
  EXPECT_THAT(Texts(Asked()), ElementsAre("line 2", "line 3", "line 4"));
}

TEST_F(LogBookTest, FollowersEndWithTheJobAndUnknownJobsAreRefused) {
  const auto reading = std::make_shared<Reading>();
  ASSERT_TRUE(Read(book_, Asked(0), reading).ok());
  Cancel(book_, "a");
  Settle();
  EXPECT_TRUE(reading->ended);
  const auto late = std::make_shared<Reading>();
  ASSERT_TRUE(Read(book_, Asked(0), late).ok());
  EXPECT_TRUE(late->ended);
  v1::StreamLogsRequest none = Asked();
  none.set_name("jobs/none");
  EXPECT_EQ(book_.Follow(none, nullptr).status().code(), absl::StatusCode::kNotFound);
  book_.Append("nodes/n0", "jobs/none", "", Line("dropped"));
}

class LineReaderTest : public HubTest {};

TEST_F(LineReaderTest, ReadsWholeLinesAcrossFilesAndPieces) {
  const std::string wide(100'000, 'w');
  std::ofstream(folder_ + "/1") << "a\n" << wide << "\nhalf";
  std::ofstream(folder_ + "/2") << "b\n\nc\nlater\n";
  LineReader reader;
  EXPECT_TRUE(reader.Add(folder_ + "/1"));
  EXPECT_FALSE(reader.Add(folder_ + "/none"));
  EXPECT_FALSE(reader.Add(folder_));
  EXPECT_TRUE(reader.Add(folder_ + "/2", /*end=*/5));
  std::vector<std::string> lines;
  while (const auto line = reader.Next()) lines.push_back(*line);
  EXPECT_THAT(lines, ElementsAre("a", wide, "b", "", "c"));
}

TEST_F(LineReaderTest, LinksAreNotFollowed) {
  std::ofstream(folder_ + "/secret") << "of others\n";
  fs::create_symlink(folder_ + "/secret", folder_ + "/symbolic");
  LineReader reader;
  EXPECT_FALSE(reader.Add(folder_ + "/symbolic"));
  fs::create_hard_link(folder_ + "/secret", folder_ + "/hard");
  EXPECT_FALSE(reader.Add(folder_ + "/hard"));
}

TEST_F(LineReaderTest, LeavesOutLinesThatAreTooLong) {
  std::ofstream(folder_ + "/1") << "a\n" << std::string(3'000'000, 'x') << "\nb\n";
  LineReader reader;
  ASSERT_TRUE(reader.Add(folder_ + "/1"));
  EXPECT_EQ(reader.Next(), "a");
  EXPECT_EQ(reader.Next(), "b");
  EXPECT_EQ(reader.Next(), std::nullopt);
}

TEST(StepLines, AreReadBackAndDamagedOnesRefused) {
  const auto record = ParseStepLine(
      R"({"step": 7, "loss": 2.5, "grad_norm": null, "learning_rate": 1e-3, "tokens": 64,)"
      R"( "seconds": 0.25, "epoch": 3, "applied": 6, "exposed_communication_seconds": 0.125,)"
      R"( "validation_loss": 2.25, "memory": {"host": {"predicted_bytes": 10, "arena_bytes": 11,)"
      R"( "measured_bytes": 12, "overhead_bytes": 13}},)"
      R"( "purposes": {"reduce": {"compute_seconds": 0, "exposed_seconds": 0.5,)"
      R"( "background_seconds": 1}, "forward": 7}})");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->step(), 7);
  EXPECT_EQ(record->loss(), 2.5);
  EXPECT_NE(record->grad_norm(), record->grad_norm()) << "NaN";
  EXPECT_EQ(record->epoch(), 3);
  EXPECT_EQ(record->validation_loss(), 2.25);
  EXPECT_FALSE(record->has_predicted_seconds());
  ASSERT_EQ(record->memory_size(), 1);
  EXPECT_EQ(record->memory(0).measured_bytes(), 12);
  ASSERT_EQ(record->purposes_size(), 1);
  EXPECT_EQ(record->purposes(0).purpose(), "reduce");
  EXPECT_EQ(record->purposes(0).exposed_seconds(), 0.5);
  for (const char* bad : {"", "{", "[]", "7", "{\"step\": \"x\"}", "{\"loss\": 1}", "\xff\xfe",
                          "{\"step\": 1e400}"}) {
    EXPECT_FALSE(ParseStepLine(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace strata::controller
