// Jobs that run as their owners, and beneath their projects' roots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/agent_fixture.h"

namespace strata::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

bool CanBeNobody() {
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(kNobody, kNobody, kNobody) == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

uid_t OwnerOf(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_uid;
}

class JobUserTest : public AgentTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || !CanBeNobody()) GTEST_SKIP() << "only root can be somebody else";
    setenv("TEST_TMPDIR", "/tmp", 1);  // which others can reach
    AgentTest::SetUp();
    chmod(folder_.c_str(), 0711);
    chmod((folder_ / "text.txt").c_str(), 0644);
    MakeFolder(folder_ / "job", kNobody);
    agent_flags_ = {"--run-as", "user"};
    more_.set_run_as("nobody");
  }
  void TearDown() override {
    if (!folder_.empty()) AgentTest::TearDown();
  }

  static void MakeFolder(const fs::path& path, uid_t owner) {
    fs::create_directory(path);
    chmod(path.c_str(), 0700);
    ASSERT_EQ(chown(path.c_str(), owner, owner), 0);
  }

  std::string ProblemWith(const v1::JobSpec& spec) {
    StartCluster({{"n0", {0}}});
    Prepare(1, spec);
    const auto prepared = controller_->WaitFor(PreparedOf("n0", 1), kWaitSeconds);
    if (!prepared.has_value()) return "nothing was said";
    return prepared->message.prepared().problem();
  }
};

TEST_F(JobUserTest, RanksAreTheOwnersAndSoIsWhatTheyMake_AlsoForTheNextAgent) {
  StartCluster({{"n0", {0, 1}}});
  RunEpoch(1, Spec(2, 400, 20));
  ASSERT_TRUE(Wait([&] { return !controller_->Recorded().empty(); }));
  const std::vector<pid_t> trainers = Trainers();
  ASSERT_EQ(trainers.size(), 2u);
  for (const pid_t trainer : trainers) {
    EXPECT_EQ(OwnerOf(fs::path("/proc") / std::to_string(trainer)), kNobody);
    EXPECT_THAT(Contents(fs::path("/proc") / std::to_string(trainer) / "status"),
                HasSubstr("CapEff:\t0000000000000000"));
  }
  for (const char* const made :
       {"job/metrics.jsonl", "job/.epoch-1", "job/.lock", "job/checkpoints"}) {
    EXPECT_EQ(OwnerOf(folder_ / made), kNobody) << made;
  }
  EXPECT_EQ(OwnerOf(folder_ / "n0" / "epochs"), 0u);

  // The next agent finds them, though they are another user's.
  EndAgent("n0", SIGKILL);
  StartAgent("n0", 2);
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.finished().outcome(), v1::Finished::SUCCEEDED) << ended.finished().message();
  ExpectStepsOnce(400);
}

TEST_F(JobUserTest, WhatTheOwnerMayNotReadTheJobCannot) {
  chmod((folder_ / "text.txt").c_str(), 0600);
  EXPECT_THAT(ProblemWith(Spec(1, 10, 5)), HasSubstr("permission denied"));
}

TEST_F(JobUserTest, WhereTheOwnerMayNotWriteThereIsNoJob) {
  ASSERT_EQ(chown((folder_ / "job").c_str(), 0, 0), 0);
  EXPECT_THAT(ProblemWith(Spec(1, 10, 5)), HasSubstr("Permission denied"));
  EXPECT_TRUE(fs::is_empty(folder_ / "job"));
}

TEST_F(JobUserTest, WhoIsNotKnownHereRunsNothing) {
  more_.set_run_as("no-such-user");
  EXPECT_THAT(ProblemWith(Spec(1, 10, 5)), HasSubstr("no user no-such-user"));
}

// Also without another user: what a link leads to is not beneath the roots.
TEST_F(AgentTest, LinksOutOfTheRootsAreNotFollowed) {
  fs::create_directories(folder_ / "root");
  fs::create_directories(folder_ / "job");
  fs::create_directory_symlink(folder_, folder_ / "root" / "data");
  more_.add_roots((folder_ / "root").string());
  more_.add_roots((folder_ / "job").string());
  StartCluster({{"n0", {0}}});
  Prepare(1, Spec(1, 10, 5, (folder_ / "root" / "data" / "text.txt").string()));
  const auto prepared = controller_->WaitFor(PreparedOf("n0", 1), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_THAT(prepared->message.prepared().problem(),
              HasSubstr("not followed beneath the project's roots"));
  // The same file by its own path.
  fs::rename(folder_ / "text.txt", folder_ / "root" / "text.txt");
  RunEpoch(2, Spec(1, 10, 5, (folder_ / "root" / "text.txt").string()));
  EXPECT_EQ(EndOf("n0", 2).finished().outcome(), v1::Finished::SUCCEEDED);
}

}  // namespace
}  // namespace strata::integration
