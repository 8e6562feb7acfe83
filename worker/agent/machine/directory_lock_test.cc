#include "worker/agent/machine/directory_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

std::string Folder(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/lock-", getpid(), "/", name);
}

TEST(DirectoryLockTest, ASecondHolderIsRefusedAndToldOfTheFirst) {
  const common::MonotonicClock clock{};
  const auto first = DirectoryLock::Acquire(Folder("a"), 0, clock);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DirectoryLock::Acquire(Folder("a"), 0, clock);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()), ::testing::HasSubstr(absl::StrCat(getpid())));
  EXPECT_TRUE(DirectoryLock::Acquire(Folder("b"), 0, clock).ok());
}

TEST(DirectoryLockTest, FileSystemsWithoutLocksAreToldFromHeldOnes) {
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    EXPECT_TRUE(DirectoryLock::IsUnsupported(error)) << error;
  }
  for (const int error : {EWOULDBLOCK, EINTR, EIO, ENOSPC, 0}) {
    EXPECT_FALSE(DirectoryLock::IsUnsupported(error)) << error;
  }
}

TEST(DirectoryLockTest, IsFreeAgainWhenTheHolderEnds) {
  const common::MonotonicClock clock{};
  EXPECT_TRUE(DirectoryLock::Acquire(Folder("a"), 0, clock).ok());
  EXPECT_TRUE(DirectoryLock::Acquire(Folder("a"), 0, clock).ok());
}

TEST(DirectoryLockTest, AChildThatOutlivesTheHolderStillHoldsIt) {
  const common::MonotonicClock clock{};
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  pid_t child = -1;
  {
    const auto held = DirectoryLock::Acquire(Folder("c"), 0, clock);
    ASSERT_TRUE(held.ok());
    child = fork();
    if (child == 0) {
      close(pipe_ends[1]);
      char byte = 0;
      (void)!read(pipe_ends[0], &byte, 1);  // until the parent closes its end
      _exit(0);
    }
  }
  EXPECT_FALSE(DirectoryLock::Acquire(Folder("c"), 0, clock).ok());
  close(pipe_ends[1]);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(DirectoryLock::Acquire(Folder("c"), 0, clock).ok());
}

TEST(DirectoryLockTest, TheNodesOfOneJobShareItAndNobodyElseMayHaveIt) {
  const common::MonotonicClock clock{};
  {
    const auto first = DirectoryLock::AcquireForJob(Folder("d"), "jobs/a of 1.5");
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GE(first->descriptor(), 16);
    EXPECT_TRUE(DirectoryLock::AcquireForJob(Folder("d"), "jobs/a of 1.5").ok());
    EXPECT_FALSE(DirectoryLock::AcquireForJob(Folder("d"), "jobs/b of 1.5").ok());
    const auto run = DirectoryLock::Acquire(Folder("d"), 0, clock);
    EXPECT_THAT(std::string(run.status().message()), ::testing::HasSubstr("jobs/a of 1.5"));
  }
  EXPECT_TRUE(DirectoryLock::AcquireForJob(Folder("d"), "jobs/b of 1.5").ok());
  EXPECT_TRUE(DirectoryLock::Acquire(Folder("d"), 0, clock).ok());
}

TEST(DirectoryLockTest, WhatARunHoldsNoJobMayHave) {
  const common::MonotonicClock clock{};
  const auto run = DirectoryLock::Acquire(Folder("e"), 0, clock);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(DirectoryLock::AcquireForJob(Folder("e"), "jobs/a of 1.5").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DirectoryLockTest, AFileInTheWayIsTheUsersError) {
  const common::MonotonicClock clock{};
  EXPECT_EQ(DirectoryLock::Acquire("/dev/null/x", 0, clock).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::worker
