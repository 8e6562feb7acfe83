#include "worker/agent/cluster/late_records.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "worker/agent/machine/file_work.h"
#include "worker/agent/trainers/metrics_files.h"

namespace strata::worker {
namespace {

class LateRecordsTest : public testing::Test {
 protected:
  LateRecordsTest() {
    std::string name = testing::TempDir() + "/late-XXXXXX";
    folder_ = mkdtemp(name.data());
    std::filesystem::create_directory(folder_ + "/epoch");
    EXPECT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  }
  ~LateRecordsTest() override {
    while (!work_.Settle(1)) std::this_thread::yield();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<LateRecords> Records(const std::string& second = "") {
    bool missing = false;
    auto files = MetricsFiles::Open(folder_, second, folder_ + "/epoch", 0, &missing);
    EXPECT_TRUE(files.ok()) << files.status();
    return std::make_unique<LateRecords>(&work_, std::make_shared<MetricsFiles>(*std::move(files)),
                                         0);
  }
  static v1::StepRecord Step(int64_t step) {
    v1::StepRecord record;
    record.set_step(step);
    return record;
  }
  void Hang() {
    work_.Do([path = folder_ + "/fifo"] { close(open(path.c_str(), O_RDONLY | O_CLOEXEC)); });
  }
  void Release() const { close(open((folder_ + "/fifo").c_str(), O_WRONLY | O_CLOEXEC)); }
  int64_t Lines() const {
    std::ifstream file(folder_ + "/metrics.jsonl");
    std::string line;
    int64_t lines = 0;
    while (std::getline(file, line)) ++lines;
    return lines;
  }

  std::string folder_;
  FileWork work_;
};

TEST_F(LateRecordsTest, AreWrittenAndSynced) {
  const auto records = Records();
  ASSERT_TRUE(records->Append(Step(1)).ok());
  ASSERT_TRUE(records->Append(Step(2)).ok());
  while (*records->Written() != 2) std::this_thread::yield();
  EXPECT_EQ(Lines(), 2);
  while (!*records->Sync(2)) std::this_thread::yield();
  EXPECT_TRUE(*records->Sync(1));
}

TEST_F(LateRecordsTest, WaitForAFileSystemThatHangsWithoutHoldingAnybodyUp) {
  const auto records = Records();
  Hang();
  ASSERT_TRUE(records->Append(Step(1)).ok());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*records->Written(), 0);
    EXPECT_FALSE(*records->Sync(1));
  }
  EXPECT_EQ(Lines(), 0);
  Release();
  while (!*records->Sync(1)) std::this_thread::yield();
  EXPECT_EQ(*records->Written(), 1);
  EXPECT_EQ(Lines(), 1);
}

TEST_F(LateRecordsTest, TellWhatFailedAndWriteNoMore) {
  const auto records = Records("/dev/full");
  ASSERT_TRUE(records->Append(Step(1)).ok());
  while (records->Written().ok()) std::this_thread::yield();
  EXPECT_NE(records->Written().status().message().find("/dev/full"), std::string::npos);
  ASSERT_TRUE(records->Append(Step(2)).ok());
  while (!work_.Settle(1)) std::this_thread::yield();
  EXPECT_EQ(Lines(), 1);
}

}  // namespace
}  // namespace strata::worker
