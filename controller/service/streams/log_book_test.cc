// The log lines of jobs, and the files with lines.
#include "controller/service/streams/log_book.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/files/line_reader.h"
#include "controller/service/files/log_line.h"
#include "controller/service/streams/hub_test.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

v1::LogLine Line(const std::string& text, int32_t rank = 0) {
  v1::LogLine line;
  line.mutable_time()->set_seconds(1700000000);
  line.mutable_time()->set_nanos(250000000);
  line.set_epoch(2);
  line.set_rank(rank);
  line.set_text(text);
  return line;
}

int ReadLines(const std::string& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
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
  Result InPool(const std::function<Result()>& work, const std::string& job = "jobs/a") {
    std::promise<Result> done;
    const absl::Status submitted = pool_.Submit(
        job,
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
      const auto piece = InPool<absl::StatusOr<Piece<v1::LogLine>>>(*source, asked.name());
      if (!piece.ok()) return piece.status();
      lines.insert(lines.end(), piece->messages.begin(), piece->messages.end());
      if (piece->last) return lines;
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

TEST_F(LogBookTest, WhatAnotherJobLeftInTheFolderIsNotShown) {
  Append(Line("of a"));
  Settle();
  v1::JobRecord other = *core_.FindJob("jobs/a");
  other.set_name("jobs/b");
  other.set_uid("another");
  other.set_epoch(2);
  other.add_placement()->set_node("nodes/n0");
  Effects effects;
  effects.changed.push_back(other);
  book_.OnEffects(core_, effects);
  v1::StreamLogsRequest asked = Asked();
  asked.set_name("jobs/b");
  EXPECT_THAT(Texts(asked), IsEmpty());
  book_.Append("nodes/n0", "jobs/b", "another", Line("of b"));
  InPool<int>([] { return 0; }, "jobs/b");
  EXPECT_THAT(Texts(asked), ElementsAre("of b"));
  EXPECT_THAT(Texts(Asked()), ElementsAre("of a"));
}

TEST_F(LogBookTest, AFileThatItsOwnerHasMadeHugeIsReadFromItsEnd) {
  Append(Line("one"));
  Settle();
  const std::string file = folder_ + "/a/log.jsonl";
  std::ofstream(file + ".old") << std::ifstream(file).rdbuf();
  fs::resize_file(file, uintmax_t{1} << 40);  // sparse
  std::ofstream(file, std::ios::app) << "\n" << std::ifstream(file + ".old").rdbuf();
  LogBook second(Small(), &pool_);
  second.OnLoad(core_);
  const auto lines = Read(second, Asked());
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 1u);
  EXPECT_EQ(lines->front().text(), "one");
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
  ASSERT_GT(texts.size(), 10u);
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

// A job of a project with one root, in a folder below it whose owner swaps what lies on the way.
class RootedLogBook : public LogBookTest {
 protected:
  RootedLogBook() {
    fs::create_directories(root_);
    fs::create_directories(outside_ + "/job");
    SetRoots({root_});
    Effects effects;
    v1::CreateJobRequest request = LogicRequest("rooted");
    v1::Job& job = *request.mutable_job();
    job.mutable_spec()->set_project("nlp");
    job.mutable_spec()->mutable_data()->mutable_train(0)->set_path(root_ + "/text.txt");
    job.set_directory(root_ + "/way/job");
    EXPECT_TRUE(core_.CreateJob(request, effects).ok());
    v1::JobRecord placed = *core_.FindJob("jobs/rooted");
    placed.set_epoch(2);
    placed.add_placement()->set_node("nodes/n0");
    effects.changed.push_back(placed);
    book_.OnEffects(core_, effects);
  }
  void SetRoots(const std::vector<std::string>& roots) {
    v1::ApplyPolicyRequest request;
    v1::ProjectPolicy& project = *request.mutable_policy()->add_projects();
    project.set_name("nlp");
    project.mutable_roots()->Add(roots.begin(), roots.end());
    Effects effects;
    ASSERT_TRUE(core_.ApplyPolicy(request, effects).ok());
    book_.OnEffects(core_, effects);
  }
  void Say(const std::string& text) {
    book_.Append("nodes/n0", "jobs/rooted", "", Line(text));
    InPool<int>([] { return 0; }, "jobs/rooted");
  }
  std::vector<std::string> Told(LogBook& book) {
    v1::StreamLogsRequest asked = Asked();
    asked.set_name("jobs/rooted");
    std::vector<std::string> texts;
    const auto lines = Read(book, asked);
    EXPECT_TRUE(lines.ok()) << lines.status();
    for (const v1::LogLine& line : lines.value_or(std::vector<v1::LogLine>())) {
      texts.push_back(line.text());
    }
    return texts;
  }
  // What lies on the way to the job's folder becomes a link out of the root.
  void Swap() {
    fs::rename(root_ + "/way", root_ + "/was");
    fs::create_directory_symlink(outside_, root_ + "/way");
  }

  const std::string root_ = folder_ + "/root", outside_ = folder_ + "/outside";
};

TEST_F(RootedLogBook, LinesAreWrittenAndRotatedBeneathTheRoot) {
  for (int i = 0; i < 60; ++i) Say(absl::StrCat("line ", i));
  EXPECT_TRUE(fs::exists(root_ + "/way/job/log.jsonl.1"));
  LogBook second(Small(), &pool_);
  second.OnLoad(core_);
  EXPECT_THAT(Told(second), Contains("line 59"));
}

TEST_F(RootedLogBook, ALinkThatWasSwappedInIsNotWrittenThrough) {
  Say("before");
  Swap();
  for (int i = 0; i < 60; ++i) Say(absl::StrCat("after ", i));  // enough for a rotation
  EXPECT_TRUE(fs::is_empty(outside_ + "/job"));
  EXPECT_THAT(Told(book_), ElementsAre("after 57", "after 58", "after 59")) << "from memory";
  fs::remove_all(outside_ + "/job");  // nor is a folder made there
  Say("again");
  EXPECT_TRUE(fs::is_empty(outside_));
}

TEST_F(RootedLogBook, ALinkThatWasSwappedInDoesNotRotateTheFilesOfOthers) {
  std::ofstream(outside_ + "/job/log.jsonl") << std::string(5000, 'x') << "\n";
  Say("before");
  Swap();
  Say("after");
  EXPECT_EQ(fs::file_size(outside_ + "/job/log.jsonl"), 5001u);
  EXPECT_FALSE(fs::exists(outside_ + "/job/log.jsonl.1"));
}

TEST_F(RootedLogBook, ALinkThatWasSwappedInIsNotReadThrough) {
  Say("of the job");
  fs::copy(root_ + "/way/job", outside_ + "/job", fs::copy_options::recursive);
  ASSERT_TRUE(fs::exists(outside_ + "/job/log.jsonl"));
  Swap();
  LogBook second(Small(), &pool_);
  second.OnLoad(core_);
  EXPECT_THAT(Told(second), IsEmpty());
}

TEST_F(RootedLogBook, RootsThatThePolicyTakesAwayHoldAtOnce) {
  Say("before");
  SetRoots({outside_});
  Say("after");
  EXPECT_THAT(Told(book_), ElementsAre("before", "after")) << "from memory";
  EXPECT_EQ(ReadLines(root_ + "/way/job/log.jsonl"), 1);
  LogBook second(Small(), &pool_);
  second.OnLoad(core_);
  EXPECT_THAT(Told(second), IsEmpty());
}

class LineReaderTest : public HubTest {};

TEST_F(LineReaderTest, ReadsWholeLinesAcrossFilesAndPieces) {
  const std::string wide(100'000, 'w');
  std::ofstream(folder_ + "/1") << "a\n" << wide << "\nhalf";
  std::ofstream(folder_ + "/2") << "b\n\nc\n";
  LineReader reader;
  EXPECT_TRUE(reader.Add({}, folder_ + "/1"));
  EXPECT_FALSE(reader.Add({}, folder_ + "/none"));
  EXPECT_FALSE(reader.Add({}, folder_));
  EXPECT_TRUE(reader.AddTail({}, folder_ + "/2", 1000));
  std::ofstream(folder_ + "/2", std::ios::app) << "after it was added\n";
  std::vector<std::string> lines;
  while (const auto line = reader.Next()) lines.push_back(*line);
  EXPECT_THAT(lines, ElementsAre("a", wide, "b", "", "c"));
}

TEST_F(LineReaderTest, ATailBeginsWithALine) {
  std::ofstream(folder_ + "/1") << "first\nsecond\nthird\n";
  const auto last = [this](int64_t most) {
    LineReader reader;
    EXPECT_TRUE(reader.AddTail({}, folder_ + "/1", most));
    std::vector<std::string> lines;
    while (const auto line = reader.Next()) lines.push_back(*line);
    EXPECT_TRUE(reader.at_end());
    return lines;
  };
  EXPECT_THAT(last(6), ElementsAre("third"));
  EXPECT_THAT(last(7), ElementsAre("third"));
  EXPECT_THAT(last(13), ElementsAre("second", "third"));
  EXPECT_THAT(last(19), ElementsAre("first", "second", "third"));
}

TEST_F(LineReaderTest, ReadsNoMoreThanIsAllowedAndThenGoesOn) {
  const std::string wide(100'000, 'w');
  std::ofstream(folder_ + "/1") << wide << "\nb\n";
  LineReader reader;
  ASSERT_TRUE(reader.Add({}, folder_ + "/1"));
  reader.Allow(1);
  EXPECT_EQ(reader.Next(), std::nullopt);
  EXPECT_FALSE(reader.at_end());
  reader.Allow(1'000'000);
  EXPECT_EQ(reader.Next(), wide);
  EXPECT_EQ(reader.Next(), "b");
  EXPECT_EQ(reader.Next(), std::nullopt);
  EXPECT_TRUE(reader.at_end());
}

TEST_F(LineReaderTest, AnEmptyFileOfATerabyteCostsAPieceAtATime) {
  std::ofstream(folder_ + "/1").close();
  fs::resize_file(folder_ + "/1", uintmax_t{1} << 40);  // sparse
  LineReader reader;
  ASSERT_TRUE(reader.Add({}, folder_ + "/1"));
  reader.Allow(1 << 20);
  EXPECT_EQ(reader.Next(), std::nullopt);
  EXPECT_FALSE(reader.at_end());
}

TEST_F(LineReaderTest, LinksAreNotFollowed) {
  std::ofstream(folder_ + "/secret") << "of others\n";
  fs::create_symlink(folder_ + "/secret", folder_ + "/symbolic");
  LineReader reader;
  EXPECT_FALSE(reader.Add({}, folder_ + "/symbolic"));
  fs::create_hard_link(folder_ + "/secret", folder_ + "/hard");
  EXPECT_FALSE(reader.Add({}, folder_ + "/hard"));
}

TEST_F(LineReaderTest, LeavesOutLinesThatAreTooLong) {
  std::ofstream(folder_ + "/1") << "a\n" << std::string(3'000'000, 'x') << "\nb\n";
  LineReader reader;
  ASSERT_TRUE(reader.Add({}, folder_ + "/1"));
  EXPECT_EQ(reader.Next(), "a");
  EXPECT_EQ(reader.Next(), "b");
  EXPECT_EQ(reader.Next(), std::nullopt);
}

}  // namespace
}  // namespace strata::controller
