#include "worker/agent/trainers/metrics_files.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "protocol/step_record.h"

namespace strata::worker {
namespace {

std::string Line(int64_t step, double loss) {
  v1::StepRecord record;
  record.set_step(step);
  record.set_loss(loss);
  return protocol::StepLine(record, "");
}

class MetricsFilesTest : public testing::Test {
 protected:
  MetricsFilesTest() {
    std::string name = absl::StrCat(testing::TempDir(), "/metrics-XXXXXX");
    folder_ = mkdtemp(name.data());
    mkdir(Path("epoch").c_str(), 0755);
  }
  ~MetricsFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }
  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  absl::StatusOr<MetricsFiles> Open(const std::string& metrics, int64_t step) {
    return MetricsFiles::Open(folder_, metrics, Path("epoch"), step, &missing_);
  }

  std::string folder_;
  bool missing_ = false;
};

TEST(CutAtStepTest, KeepsTheBytesUpToTheStepAndNothingElse) {
  const std::string two = Line(1, 0.1) + Line(2, 0.2);
  EXPECT_EQ(CutAtStep(two + Line(3, 0.3) + "{\"step\": 4, \"lo", 2), two);
  EXPECT_EQ(CutAtStep(two, 5), two);
  EXPECT_EQ(CutAtStep(two, 0), "");
  EXPECT_EQ(CutAtStep("", 5), "");
}

TEST(CutAtStepTest, RecordsOfAJobThatStartsFromALaterStepAreKept) {
  const std::string two = Line(21, 0.1) + Line(22, 0.2);
  EXPECT_EQ(CutAtStep(two + Line(23, 0.3), 22), two);
  EXPECT_EQ(CutAtStep(two + Line(24, 0.3), 24), two);
  EXPECT_EQ(CutAtStep(two, 20), "");
}

TEST_F(MetricsFilesTest, RecordsOfAJobThatStartsFromALaterStepMissNothingWhenItGoesOn) {
  Write("metrics.jsonl", Line(21, 0.1) + Line(22, 0.2) + Line(23, 0.3));
  ASSERT_TRUE(Open("", 22).ok());
  EXPECT_FALSE(missing_);
  EXPECT_EQ(Read("metrics.jsonl"), Line(21, 0.1) + Line(22, 0.2));
  ASSERT_TRUE(Open("", 23).ok());
  EXPECT_TRUE(missing_);
}

TEST(CutAtStepTest, OfARepeatedStepTheLastLineCounts) {
  EXPECT_EQ(CutAtStep(Line(1, 0.1) + Line(2, 0.2) + Line(2, 0.25), 2),
            Line(1, 0.1) + Line(2, 0.25));
}

TEST(CutAtStepTest, StopsAtAGapAndPassesOverGarbage) {
  EXPECT_EQ(CutAtStep(Line(1, 0.1) + "garbage\n[1]\n{}\n" + Line(3, 0.3), 3), Line(1, 0.1));
}

std::string LineOf(int64_t step, int64_t epoch, const std::string& job_uid = "of this") {
  v1::StepRecord record;
  record.set_step(step);
  record.set_epoch(epoch);
  return protocol::StepLine(record, job_uid);
}

v1::JobEpoch Epoch(int64_t number) {
  v1::JobEpoch epoch;
  epoch.set_uid("of this");
  epoch.set_epoch(number);
  return epoch;
}

TEST(PublishedStepTest, OnlyWhatThisEpochWroteWithoutAGapCountsBeyondItsStart) {
  const std::string text = LineOf(1, 1) + LineOf(2, 1) + LineOf(3, 2) + LineOf(4, 2);
  EXPECT_EQ(PublishedStep(text, Epoch(2), 2), 4);
  EXPECT_EQ(PublishedStep(text + "{\"step\": 5, \"epoch\": 2", Epoch(2), 2), 4);
  EXPECT_EQ(PublishedStep(text + LineOf(6, 2), Epoch(2), 2), 4);
  EXPECT_EQ(PublishedStep(text, Epoch(3), 2), 2);  // what follows is of an epoch that is over
  EXPECT_EQ(PublishedStep(LineOf(3, 1) + LineOf(3, 2), Epoch(2), 2), 3);
  EXPECT_EQ(PublishedStep("", Epoch(2), 0), 0);
  EXPECT_EQ(PublishedStep(text + LineOf(5, 2, "of another"), Epoch(2), 2), 4);
  EXPECT_EQ(PublishedStep(text + LineOf(5, 2, ""), Epoch(2), 2), 5);  // an earlier release's
}

TEST_F(MetricsFilesTest, AnAgentThatComesAfterOneThatDiedGoesOnBehindItsLastWholeLine) {
  const std::string kept = LineOf(1, 1) + LineOf(2, 2) + LineOf(3, 2);
  Write("metrics.jsonl", kept + "{\"step\": 4, \"ep");
  Write("epoch/metrics.jsonl", LineOf(2, 2) + LineOf(3, 2) + LineOf(4, 2));
  int64_t published = 0;
  auto files = MetricsFiles::Continue(folder_, Path("epoch"), Epoch(2), 1, &published, &missing_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(published, 3);
  EXPECT_FALSE(missing_);
  ASSERT_TRUE(files->AppendLine(LineOf(4, 2)).ok());
  EXPECT_EQ(Read("metrics.jsonl"), kept + LineOf(4, 2));
  EXPECT_EQ(Read("epoch/metrics.jsonl"), LineOf(2, 2) + LineOf(3, 2) + LineOf(4, 2));
}

TEST_F(MetricsFilesTest, WhatAnotherJobLeftInTheFolderIsNotTakenForItsOwn) {
  Write("metrics.jsonl", LineOf(1, 1, "of another") + LineOf(2, 1, "of another"));
  int64_t published = 0;
  auto files = MetricsFiles::Continue(folder_, Path("epoch"), Epoch(1), 0, &published, &missing_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(published, 0);
  v1::StepRecord record;
  record.set_step(1);
  record.set_epoch(1);
  ASSERT_TRUE(files->Append(record).ok());
  EXPECT_EQ(Read("metrics.jsonl"), LineOf(1, 1));
  EXPECT_TRUE(absl::StrContains(Read("metrics.jsonl"), "\"of this\""));
}

TEST_F(MetricsFilesTest, ANewEpochCutsWhatTheOneBeforeItWroteBeyondTheCheckpoint) {
  Write("metrics.jsonl", LineOf(1, 1) + LineOf(2, 1) + LineOf(3, 1));
  int64_t published = 0;
  auto files = MetricsFiles::Continue(folder_, Path("epoch"), Epoch(2), 2, &published, &missing_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(published, 2);
  EXPECT_EQ(Read("metrics.jsonl"), LineOf(1, 1) + LineOf(2, 1));
  EXPECT_EQ(Read("epoch/metrics.jsonl"), "");
}

TEST_F(MetricsFilesTest, AFreshStartEmptiesWhatIsThere) {
  Write("metrics.jsonl", Line(1, 9));
  Write("user.jsonl", Line(1, 9));
  auto files = Open(Path("user.jsonl"), 0);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_FALSE(missing_);
  ASSERT_TRUE(files->AppendLine(Line(1, 0.5)).ok());
  ASSERT_TRUE(files->Sync().ok());
  EXPECT_EQ(Read("metrics.jsonl"), Line(1, 0.5));
  EXPECT_EQ(Read("user.jsonl"), Line(1, 0.5));
  EXPECT_EQ(Read("epoch/metrics.jsonl"), Line(1, 0.5));
}

TEST_F(MetricsFilesTest, AResumedJobContinuesAtTheCheckpoint) {
  const std::string all = Line(1, 0.1) + Line(2, 0.2) + Line(3, 0.3);
  Write("metrics.jsonl", all);
  Write("user.jsonl", all);
  auto files = Open(Path("user.jsonl"), 2);
  ASSERT_TRUE(files.ok());
  EXPECT_FALSE(missing_);
  ASSERT_TRUE(files->AppendLine(Line(3, 0.4)).ok());
  const std::string expected = Line(1, 0.1) + Line(2, 0.2) + Line(3, 0.4);
  EXPECT_EQ(Read("metrics.jsonl"), expected);
  EXPECT_EQ(Read("user.jsonl"), expected);
  EXPECT_EQ(Read("epoch/metrics.jsonl"), Line(3, 0.4));
}

TEST_F(MetricsFilesTest, ANewUserFileGetsTheEarlierRecordsFromTheJob) {
  Write("metrics.jsonl", Line(1, 0.1) + Line(2, 0.2));
  ASSERT_TRUE(Open(Path("user.jsonl"), 2).ok());
  EXPECT_FALSE(missing_);
  EXPECT_EQ(Read("user.jsonl"), Line(1, 0.1) + Line(2, 0.2));
}

TEST_F(MetricsFilesTest, LostRecordsAreReported) {
  Write("metrics.jsonl", Line(1, 0.1));
  ASSERT_TRUE(Open("", 2).ok());
  EXPECT_TRUE(missing_);
}

TEST_F(MetricsFilesTest, TheSameFileUnderTwoNamesIsWrittenOnce) {
  for (const std::string& name : {Path("metrics.jsonl"), Path("epoch/../metrics.jsonl")}) {
    Write("metrics.jsonl", "");
    auto files = Open(name, 0);
    ASSERT_TRUE(files.ok());
    ASSERT_TRUE(files->AppendLine(Line(1, 1)).ok());
    EXPECT_EQ(Read("metrics.jsonl"), Line(1, 1));
  }
}

TEST_F(MetricsFilesTest, APathThatCannotBeAFileIsRefusedByName) {
  Write("file", "x");
  for (const std::string& path : {Path("file/m.jsonl"), Path("epoch"), Path("nowhere/m.jsonl")}) {
    const auto files = Open(path, 0);
    ASSERT_FALSE(files.ok());
    EXPECT_NE(files.status().message().find(path), absl::string_view::npos) << files.status();
  }
}

}  // namespace
}  // namespace strata::worker
