#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "client/commands/fake_cluster.h"
#include "client/exit_codes.h"
#include "common/sha256.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

class BackupCommandTest : public FakeClusterTest {
 protected:
  BackupCommandTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    common::Sha256 sha;
    sha.Add("whole", 5);
    digest_ = sha.Finish();
    server_.backup = [this](const v1::BackupClusterRequest&, const auto& send) -> FakeAnswer {
      send({});  // it is being made
      v1::BackupClusterResponse piece;
      piece.set_data("who");
      piece.set_total_bytes(5);
      send(piece);
      piece.Clear();
      piece.set_data("le");
      piece.set_digest(digest_);
      send(piece);
      return ended_;
    };
  }
  ~BackupCommandTest() override { std::filesystem::remove_all(folder_); }
  bool FolderIsEmpty() const { return std::filesystem::is_empty(folder_); }

  const std::string folder_ = testing::TempDir() + "/backup_command";
  const std::string file_ = folder_ + "/state.db";
  std::string digest_;
  FakeAnswer ended_;
};

TEST_F(BackupCommandTest, WritesTheWholeFileForItsOwnerAlone) {
  const Outcome saved = Run({"backup", "-o", file_});
  EXPECT_EQ(saved.code, kExitDone) << saved.err;
  EXPECT_THAT(saved.err, HasSubstr("--restored"));
  std::stringstream text;
  text << std::ifstream(file_).rdbuf();
  EXPECT_EQ(text.str(), "whole");
  struct stat info = {};
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(BackupCommandTest, KeepsNothingThatIsNotWhole) {
  digest_ = std::string(64, '0');
  const Outcome other = Run({"backup", "-o", file_});
  EXPECT_EQ(other.code, kExitFailed);
  EXPECT_THAT(other.err, HasSubstr("not what the controller sent"));
  EXPECT_TRUE(FolderIsEmpty());
  digest_ = "";  // as if it had broken before the end
  EXPECT_EQ(Run({"backup", "-o", file_}).code, kExitFailed);
  EXPECT_TRUE(FolderIsEmpty());
  ended_ = {8, "no room", ""};
  EXPECT_NE(Run({"backup", "-o", file_}).code, kExitDone);
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_F(BackupCommandTest, ReplacesNothingAndNeedsAFile) {
  std::ofstream(file_) << "another";
  const Outcome refused = Run({"backup", "-o", file_});
  EXPECT_EQ(refused.code, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("is there already"));
  EXPECT_EQ(server_.calls("BackupCluster"), 0);
  EXPECT_EQ(Run({"backup"}).code, kExitUsage);
  EXPECT_EQ(Run({"backup", "-o", folder_ + "/none/x"}).code, kExitUsage);
  EXPECT_THAT(RunTyped({"backup", "--help"}).out, HasSubstr("--output FILE"));
}

}  // namespace
}  // namespace strata::client
