// Jobs whose directories do not answer. What hangs is a FIFO that their user has put in the place
// of a file.
#include "worker/agent/cluster/machine_host.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "worker/agent/machine/agent_folder.h"
#include "worker/agent/trainers/trainer_poll.h"

namespace strata::worker {
namespace {

namespace fs = std::filesystem;

class MachineHostTest : public testing::Test {
 protected:
  MachineHostTest() {
    std::string name = testing::TempDir() + "/host-XXXXXX";
    path_ = mkdtemp(name.data());
    auto folder = AgentFolder::Open(path_ + "/node");
    EXPECT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
    MachineHost::Users users;
    users.mode = RunAs::kDaemon;
    host_ = std::make_unique<MachineHost>(folder_.get(), &trainers_, users);
  }
  ~MachineHostTest() override { fs::remove_all(path_); }

  std::unique_ptr<EpochHost> Epoch(const std::string& job) {
    v1::PrepareEpoch prepare;
    prepare.mutable_epoch()->set_job("jobs/" + job);
    prepare.mutable_epoch()->set_epoch(1);
    prepare.mutable_epoch()->set_uid("uid of " + job);
    prepare.set_directory(path_ + "/" + job);
    prepare.set_owner(job);
    prepare.add_own(0);
    return host_->OpenEpoch(prepare);
  }
  static absl::Status Open(EpochHost& epoch) {
    std::optional<absl::Status> opened;
    while (!opened.has_value()) opened = epoch.Open();
    return *opened;
  }

  std::string path_;
  std::unique_ptr<AgentFolder> folder_;
  TrainerPoll trainers_;
  std::unique_ptr<MachineHost> host_;
};

TEST_F(MachineHostTest, ADirectoryIsOpenedAndLockedAndHasTheEpochsFolder) {
  const auto epoch = Epoch("a");
  ASSERT_TRUE(Open(*epoch).ok());
  EXPECT_TRUE(fs::is_directory(path_ + "/a/.epoch-1"));
  v1::PrepareEpoch other;
  other.set_directory(path_ + "/a");
  other.set_owner("b");
  const auto refused = host_->OpenEpoch(other);
  EXPECT_TRUE(absl::IsInvalidArgument(Open(*refused)));
  epoch->Unlock();
  const auto later = host_->OpenEpoch(other);
  EXPECT_TRUE(Open(*later).ok());
}

TEST_F(MachineHostTest, AJobWhoseFilesHangHoldsUpNobody) {
  const auto hangs = Epoch("a");
  ASSERT_TRUE(Open(*hangs).ok());
  const std::string fifo = path_ + "/a/metrics.jsonl";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(hangs->OpenRecords(0).has_value());

  const auto other = Epoch("b");
  ASSERT_TRUE(Open(*other).ok());
  std::optional<absl::StatusOr<EpochHost::OpenedRecords>> records;
  while (!records.has_value()) records = other->OpenRecords(0);
  EXPECT_TRUE(records->ok()) << records->status();
  records.reset();

  EXPECT_FALSE(hangs->OpenRecords(0).has_value());
  while (!records.has_value()) {  // somebody reads and writes at the other end
    close(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    records = hangs->OpenRecords(0);
  }
  EXPECT_TRUE(records->ok()) << records->status();
}

}  // namespace
}  // namespace strata::worker
