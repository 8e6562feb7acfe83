#include "worker/agent/machine/file_work.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr double kPatience = 30;  // seconds

class FileWorkTest : public testing::Test {
 protected:
  FileWorkTest() {
    unlink(fifo_.c_str());
    EXPECT_EQ(mkfifo(fifo_.c_str(), 0600), 0);
  }
  ~FileWorkTest() override { unlink(fifo_.c_str()); }

  // Hangs until Release.
  void Hang() {
    work_->Do([path = fifo_, done = done_] {
      close(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      done->push_back(0);
    });
  }
  void Release() const { close(open(fifo_.c_str(), O_WRONLY | O_CLOEXEC)); }

  const std::string fifo_ = testing::TempDir() + "/file-work-fifo";
  const std::shared_ptr<std::vector<int>> done_ = std::make_shared<std::vector<int>>();
  std::unique_ptr<FileWork> work_ = std::make_unique<FileWork>();
};

TEST_F(FileWorkTest, IsDoneInOrderAndSeen) {
  EXPECT_TRUE(work_->Settle(0));
  for (int i = 1; i <= 3; ++i) work_->Do([i, done = done_] { done->push_back(i); });
  ASSERT_TRUE(work_->Settle(kPatience));
  EXPECT_EQ(*done_, (std::vector<int>{1, 2, 3}));
}

TEST_F(FileWorkTest, WhatHangsHoldsUpNobodyAndIsDoneLater) {
  Hang();
  work_->Do([done = done_] { done->push_back(1); });
  EXPECT_FALSE(work_->Settle(0.01));
  EXPECT_FALSE(work_->Settle(1e6)) << "nobody waits twice for the same";
  Release();
  while (!work_->Settle(kPatience)) std::this_thread::yield();
  EXPECT_EQ(*done_, (std::vector<int>{0, 1}));
}

TEST_F(FileWorkTest, IsLeftBehindWhenItHangs) {
  Hang();
  EXPECT_FALSE(work_->Settle(0.01));
  work_ = nullptr;
  EXPECT_EQ(done_.use_count(), 2);
  Release();
  while (done_.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(*done_, (std::vector<int>{0}));
}

}  // namespace
}  // namespace strata::worker
