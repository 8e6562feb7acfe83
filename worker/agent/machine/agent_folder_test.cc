#include "worker/agent/machine/agent_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/machine/log_tail.h"
#include "worker/agent/machine/process_stat.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class AgentFolderTest : public testing::Test {
 protected:
  AgentFolderTest() {
    std::string name = testing::TempDir() + "/agent-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~AgentFolderTest() override { fs::remove_all(path_); }

  std::unique_ptr<AgentFolder> Open() {
    auto folder = AgentFolder::Open(path_ + "/node");
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  static v1::HeldEpochRecord Record(int64_t epoch) {
    v1::HeldEpochRecord record;
    record.set_boot_id(BootId());
    record.mutable_prepare()->mutable_epoch()->set_job("jobs/a");
    record.mutable_prepare()->mutable_epoch()->set_epoch(epoch);
    record.mutable_prepare()->add_own(3);
    record.add_trainers()->set_pid(42);
    return record;
  }

  std::string path_;
};

TEST_F(AgentFolderTest, OnlyOneAgentHoldsIt) {
  auto first = Open();
  EXPECT_EQ(AgentFolder::Open(path_ + "/node").status().code(), absl::StatusCode::kAlreadyExists);
  first.reset();
  Open();
}

TEST_F(AgentFolderTest, WhoseControllerItHearsIsKept) {
  {
    auto folder = Open();
    EXPECT_EQ(folder->membership().controller_term(), 0);
    v1::AgentMembership membership;
    membership.set_cluster("c");
    membership.set_controller_term(7);
    ASSERT_TRUE(folder->SetMembership(membership).ok());
  }
  EXPECT_EQ(Open()->membership().cluster(), "c");
  EXPECT_EQ(Open()->membership().controller_term(), 7);
  std::ofstream(path_ + "/node/membership") << "seven";
  EXPECT_EQ(AgentFolder::Open(path_ + "/node").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AgentFolderTest, AnAgentOfBeforeClustersLeavesItsTerm) {
  Open();
  std::ofstream(path_ + "/node/controller_term") << "7\n";
  EXPECT_EQ(Open()->membership().controller_term(), 7);
  std::ofstream(path_ + "/node/controller_term") << "seven";
  EXPECT_EQ(AgentFolder::Open(path_ + "/node").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AgentFolderTest, RecordsOfJobsOfOneNameDoNotMeet) {
  auto folder = Open();
  v1::HeldEpochRecord older = Record(1), newer = Record(1);
  older.mutable_prepare()->mutable_epoch()->set_uid("u1");
  newer.mutable_prepare()->mutable_epoch()->set_uid("u2");
  ASSERT_TRUE(folder->SaveRecord(older).ok());
  ASSERT_TRUE(folder->SaveRecord(newer).ok());
  folder->RemoveRecord(older);
  const auto found = folder->LoadRecords();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].prepare().epoch().uid(), "u2");
}

TEST_F(AgentFolderTest, RecordsAreFoundAgainUntilTheyAreRemoved) {
  auto folder = Open();
  ASSERT_TRUE(folder->SaveRecord(Record(1)).ok());
  v1::HeldEpochRecord second = Record(2);
  ASSERT_TRUE(folder->SaveRecord(second).ok());
  second.set_started(true);
  ASSERT_TRUE(folder->SaveRecord(second).ok());
  std::ofstream(folder->ProgressPath(second.prepare().epoch(), 3)) << "x";
  EXPECT_EQ(folder->LoadRecords().size(), 2u);
  folder->RemoveRecord(Record(1));
  const std::vector<v1::HeldEpochRecord> found = folder->LoadRecords();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].started());
  folder->RemoveRecord(second);
  EXPECT_FALSE(fs::exists(folder->ProgressPath(second.prepare().epoch(), 3)));
  EXPECT_THAT(folder->LoadRecords(), IsEmpty());
}

TEST_F(AgentFolderTest, RecordsOfAnotherBootAndDamagedOnesAreForgotten) {
  auto folder = Open();
  v1::HeldEpochRecord old = Record(1);
  old.set_boot_id("another");
  ASSERT_TRUE(folder->SaveRecord(old).ok());
  std::ofstream(path_ + "/node/epochs/a-2.epoch") << "garbage";
  std::ofstream(path_ + "/node/epochs/a-3.epoch.new") << Record(3).SerializeAsString();
  std::ofstream(path_ + "/node/epochs/b-4.epoch") << Record(4).SerializeAsString();
  EXPECT_THAT(folder->LoadRecords(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(path_ + "/node/epochs"));
}

TEST_F(AgentFolderTest, NamesThatCouldBecomePathsAreNone) {
  EXPECT_EQ(ShortJobName("jobs/bible-2.x_1"), "bible-2.x_1");
  for (const char* const bad : {"", "bible", "jobs/", "jobs/../x", "jobs/a/b", "jobs/.a"}) {
    EXPECT_EQ(ShortJobName(bad), "") << bad;
  }
}

TEST_F(AgentFolderTest, LinesOfALogComeWholeAndOnce) {
  const std::string path = path_ + "/log";
  LogTail tail(path, /*from_end=*/false);
  EXPECT_THAT(tail.Read(10), IsEmpty());
  std::ofstream file(path);
  file << "one\ntwo\nthr" << std::flush;
  EXPECT_THAT(tail.Read(1), ElementsAre("one"));
  EXPECT_THAT(tail.Read(10), ElementsAre("two"));
  EXPECT_THAT(tail.Read(10), IsEmpty());
  file << "ee\nfour" << std::flush;
  EXPECT_THAT(tail.Read(10, /*last=*/true), ElementsAre("three", "four"));
  EXPECT_THAT(LogTail(path, /*from_end=*/true).Read(10), IsEmpty());
}

TEST_F(AgentFolderTest, ALineWithoutEndIsCut) {
  const std::string path = path_ + "/log";
  std::ofstream(path) << std::string(100'000, 'x');
  LogTail tail(path, /*from_end=*/false);
  std::vector<std::string> lines;
  for (int i = 0; i < 10 && lines.empty(); ++i) lines = tail.Read(10);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].size(), LogTail::kLongestLine);
}

TEST_F(AgentFolderTest, OfALogThatGrowsTooFastTheNewestLinesComeAndTheGapIsTold) {
  const std::string path = path_ + "/log";
  LogTail tail(path, /*from_end=*/false);
  std::ofstream file(path);
  for (int i = 0; i < 40'000; ++i) file << "line number " << i << '\n';
  file << "FATAL: the end" << std::flush;
  std::vector<std::string> lines = tail.Read(20'000, /*last=*/true);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(), HasSubstr("bytes of log left out"));
  EXPECT_EQ(lines.back(), "FATAL: the end");
}

TEST_F(AgentFolderTest, ALogThatWasReadBeginsAnewAtItsLargest) {
  const std::string path = path_ + "/log";
  LogTail tail(path, /*from_end=*/false);
  std::ofstream file(path, std::ios::app);
  const std::string piece(LogTail::kMostBehind / 2 - 1, 'x');
  int64_t written = 0;
  while (written <= LogTail::kLargestFile) {
    file << piece << '\n' << std::flush;
    written += static_cast<int64_t>(piece.size()) + 1;
    while (!tail.Read(100).empty()) {
    }
  }
  EXPECT_LT(std::filesystem::file_size(path), static_cast<uint64_t>(LogTail::kLargestFile));
  file << "on\n" << std::flush;
  EXPECT_THAT(tail.Read(10), ElementsAre("on"));
}

}  // namespace
}  // namespace strata::worker
