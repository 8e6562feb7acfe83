// Copies of the state while it changes, over the wire.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

class BackupTest : public testing::Test {
 protected:
  BackupTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/copy");
  }
  ~BackupTest() override { std::filesystem::remove_all(folder_); }
  // Into copy/controller.db; checks the digest.
  static grpc::Status Take(RunningController& running, const std::string& folder) {
    Deadline context;
    const auto stream = running.cluster->BackupCluster(&context, {});
    std::ofstream file(folder + "/copy/controller.db", std::ios::binary);
    common::Sha256 digest;
    std::string told;
    int64_t total = 0, bytes = 0;
    v1::BackupClusterResponse piece;
    while (stream->Read(&piece)) {
      if (piece.total_bytes() > 0) total = piece.total_bytes();
      if (!piece.digest().empty()) told = piece.digest();
      digest.Add(piece.data().data(), piece.data().size());
      bytes += static_cast<int64_t>(piece.data().size());
      file << piece.data();
    }
    const grpc::Status status = stream->Finish();
    if (status.ok()) {
      EXPECT_EQ(bytes, total);
      EXPECT_EQ(told, digest.Finish());
    }
    return status;
  }

  const std::string folder_ = testing::TempDir() + "/backup";
};

TEST_F(BackupTest, HoldsAllThatWasAcknowledgedBeforeItWhileMoreComes) {
  RunningController running(folder_ + "/first");
  v1::Job job;
  for (int i = 0; i < 20; ++i) {
    v1::CreateJobRequest request = GoodRequest(absl::StrCat("before-", i));
    request.mutable_job()->mutable_spec()->mutable_data()->mutable_train(0)->set_path(
        "/data/" + std::string(100'000, 'x'));  // so that the copy takes several steps
    ASSERT_TRUE(running.Create(request, &job).ok());
  }
  std::atomic<bool> done{false};
  std::atomic<int> created{0};
  std::thread load([&] {
    while (!done) {
      v1::Job other;
      EXPECT_TRUE(running.Create(GoodRequest(absl::StrCat("beside-", created++)), &other).ok());
    }
  });
  while (created < 3) std::this_thread::yield();
  const grpc::Status taken = Take(running, folder_);
  done = true;
  load.join();
  ASSERT_TRUE(taken.ok()) << taken.error_message();
  RunningController copy(folder_ + "/copy");
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(copy.Get(absl::StrCat("jobs/before-", i), &job).ok()) << i;
  }
}

TEST_F(BackupTest, LeavesNothingBehindAndCanBeMadeAgain) {
  RunningController running(folder_ + "/first");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Take(running, folder_).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/first")) {
    EXPECT_NE(entry.path().filename().string().rfind("backup-", 0), 0u) << entry.path();
  }
}

TEST_F(BackupTest, OfWhatIsKeptInMemoryIsRefused) {
  RunningController running;
  EXPECT_EQ(Take(running, folder_).error_code(), grpc::FAILED_PRECONDITION);
}

TEST_F(BackupTest, UnfinishedCopiesOfADeadProcessAreRemoved) {
  std::filesystem::create_directories(folder_ + "/first");
  std::ofstream(folder_ + "/first/backup-abcdef") << "half";
  const RunningController running(folder_ + "/first");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/first/backup-abcdef"));
}

}  // namespace
}  // namespace strata::controller
