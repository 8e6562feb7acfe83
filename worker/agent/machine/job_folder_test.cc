#include "worker/agent/machine/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "worker/agent/machine/directory_lock.h"
#include "worker/agent/machine/epoch_folder.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class JobFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(base_);
    fs::create_directories(base_ / "root");
    fs::create_directories(base_ / "outside");
    auto roots = common::PathRoots::Open({(base_ / "root").string()});
    ASSERT_TRUE(roots.ok()) << roots.status();
    roots_ = *std::move(roots);
  }
  void TearDown() override { fs::remove_all(base_); }

  std::string Path(const std::string& rest) const { return (base_ / rest).string(); }

  const fs::path base_ = fs::path(std::getenv("TEST_TMPDIR")) / "folders";
  common::PathRoots roots_;
};

TEST_F(JobFolderTest, StaysTheSameWhenALinkTakesItsPlace) {
  const auto folder = JobFolder::Open(roots_, Path("root/a/job"));
  ASSERT_TRUE(folder.ok()) << folder.status();
  fs::rename(base_ / "root/a", base_ / "root/moved");
  fs::create_directories(base_ / "outside/job");
  fs::create_directory_symlink(base_ / "outside", base_ / "root/a");
  ASSERT_TRUE(MakeEpochFolder(folder->held_path(), 3).ok());
  EXPECT_TRUE(fs::is_directory(base_ / "root/moved/job/.epoch-3"));
  EXPECT_TRUE(fs::is_empty(base_ / "outside/job"));
}

TEST_F(JobFolderTest, OutsideOfTheRootsThereIsNone) {
  fs::create_directory_symlink(base_ / "outside", base_ / "root/link");
  for (const char* const path : {"outside/job", "root/link/job"}) {
    const auto folder = JobFolder::Open(roots_, Path(path));
    EXPECT_TRUE(absl::IsInvalidArgument(folder.status())) << folder.status();
    EXPECT_THAT(std::string(folder.status().message()), HasSubstr(Path(path)));
    EXPECT_THAT(std::string(folder.status().message()), HasSubstr("roots"));
  }
  EXPECT_TRUE(fs::is_empty(base_ / "outside"));
}

TEST_F(JobFolderTest, ErrorsNameThePathThatPeopleKnow) {
  const auto folder = JobFolder::Open(roots_, Path("root/job"));
  ASSERT_TRUE(folder.ok());
  std::ofstream(base_ / "root/job/.epoch-3") << "a file";
  const absl::Status status = folder->Named(MakeEpochFolder(folder->held_path(), 3).status());
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("root/job/.epoch-3")));
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("/proc/")));
}

// Also for root: the kernel's own file systems take no folders.
TEST_F(JobFolderTest, WhatCannotBeMadeIsThePersonsToChange) {
  const auto folder = JobFolder::Open(common::PathRoots(), "/sys/strata-job");
  EXPECT_TRUE(absl::IsInvalidArgument(folder.status())) << folder.status();
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("/sys/strata-job: "));
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("checkpoint.directory"));
}

// Whoever may write in the folder puts links where the agent makes files.
TEST_F(JobFolderTest, LinksInTheFolderAreNotFollowed) {
  const auto folder = JobFolder::Open(roots_, Path("root/job"));
  ASSERT_TRUE(folder.ok());
  fs::create_directory_symlink(base_ / "outside", base_ / "root/job/.epoch-3");
  EXPECT_FALSE(MakeEpochFolder(folder->held_path(), 3).ok());
  fs::create_directory_symlink(base_ / "outside", base_ / "root/job/.epoch-2");
  std::ofstream(base_ / "outside/kept") << "x";
  ASSERT_TRUE(MakeEpochFolder(folder->held_path(), 4).ok());
  EXPECT_TRUE(fs::exists(base_ / "outside/kept")) << "earlier epochs' folders are removed";
  EXPECT_FALSE(fs::is_symlink(base_ / "root/job/.epoch-2"));

  fs::create_symlink(base_ / "outside/lock", base_ / "root/job/.lock");
  EXPECT_FALSE(DirectoryLock::AcquireForJob(folder->held_path(), "jobs/a").ok());
  EXPECT_FALSE(fs::exists(base_ / "outside/lock"));
}

}  // namespace
}  // namespace strata::worker
