#include "checkpoint/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileSystemTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path();
  FileSystem* const files_ = PosixFileSystem();
};

TEST_F(FileSystemTest, Append_DiskFull_IsResourceExhaustedAndNamesTheFile) {
  const auto file = files_->CreateFile("/dev/full");
  if (!file.ok()) GTEST_SKIP() << "no /dev/full here";
  const absl::Status status = (*file)->Append("x", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device")));
}

TEST_F(FileSystemTest, CreateFolders_BelowAFile_NamesTheFile) {
  WriteFile(path_ + "/text", "x");
  const absl::Status status = CreateFolders(files_, path_ + "/text/below-a-file/deep");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("text/below-a-file"));
  EXPECT_FALSE(files_->CreateFolder(path_ + "/text").ok());
}

TEST_F(FileSystemTest, CreateFolders_MissingParents_CreatesThemAndRepeats) {
  EXPECT_TRUE(CreateFolders(files_, path_ + "/a/b/c").ok());
  EXPECT_TRUE(CreateFolders(files_, path_ + "/a/b/c").ok());
  EXPECT_TRUE(std::filesystem::is_directory(path_ + "/a/b/c"));
}

TEST_F(FileSystemTest, CreateFile_UnwritableFolder_IsPermissionDenied) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  chmod(path_.c_str(), 0555);
  const absl::Status status = files_->CreateFile(path_ + "/x").status();
  chmod(path_.c_str(), 0755);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

TEST_F(FileSystemTest, PublishFolder_NothingOrAnEmptyFolderThere_Moves) {
  for (const char* to : {"/none", "/empty"}) {
    ASSERT_TRUE(files_->CreateFolder(path_ + "/empty").ok());
    ASSERT_TRUE(files_->CreateFolder(path_ + "/from").ok());
    WriteFile(path_ + "/from/file", "x");
    ASSERT_TRUE(files_->PublishFolder(path_ + "/from", path_ + to).ok());
    EXPECT_EQ(ReadFile(path_ + to + "/file"), "x");
    EXPECT_FALSE(files_->Exists(path_ + "/from/file"));
  }
}

TEST_F(FileSystemTest, PublishFolder_OntoSomethingOrFromNothing_ChangesNothing) {
  ASSERT_TRUE(files_->CreateFolder(path_ + "/from").ok());
  ASSERT_TRUE(files_->CreateFolder(path_ + "/to").ok());
  WriteFile(path_ + "/to/file", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(files_->PublishFolder(path_ + "/from", path_ + "/to")));
  EXPECT_EQ(ReadFile(path_ + "/to/file"), "x");
  EXPECT_TRUE(absl::IsNotFound(files_->PublishFolder(path_ + "/gone", path_ + "/none")));
  EXPECT_FALSE(files_->Exists(path_ + "/none"));
}

TEST_F(FileSystemTest, RenameFolder_OntoSomething_LeavesBoth) {
  ASSERT_TRUE(CreateFolders(files_, path_ + "/a").ok());
  ASSERT_TRUE(CreateFolders(files_, path_ + "/b").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(files_->RenameFolder(path_ + "/a", path_ + "/b")));
  EXPECT_THAT(*files_->List(path_), ElementsAre("a", "b"));
}

TEST_F(FileSystemTest, RemoveAll_FolderWithALink_LeavesTheLinksTarget) {
  ASSERT_TRUE(CreateFolders(files_, path_ + "/target").ok());
  ASSERT_TRUE(CreateFolders(files_, path_ + "/gone/deep").ok());
  WriteFile(path_ + "/gone/deep/file", "x");
  std::filesystem::create_directory_symlink(path_ + "/target", path_ + "/gone/link");
  EXPECT_TRUE(files_->RemoveAll(path_ + "/gone").ok());
  EXPECT_TRUE(files_->RemoveAll(path_ + "/gone").ok());
  EXPECT_THAT(*files_->List(path_), ElementsAre("target"));
}

TEST_F(FileSystemTest, WriteAtomically_AnyOperationFails_LeavesTheOldContent) {
  for (int at = 1;; ++at) {
    WriteFile(path_ + "/file", "old");
    FaultyFileSystem files(FaultyFileSystem::Fault::kError, at);
    const absl::Status status = WriteAtomically(&files, path_ + "/file", "new");
    EXPECT_THAT(*files.List(path_), ElementsAre("file")) << "no temporary file stays";
    if (!files.fired()) {
      EXPECT_TRUE(status.ok());
      EXPECT_EQ(ReadFile(path_ + "/file"), "new");
      break;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    files.LosePower();
    EXPECT_EQ(ReadFile(path_ + "/file"), "old") << at;
    std::filesystem::remove(path_ + "/file.tmp");  // to which the lost rename was undone
  }
}

TEST_F(FileSystemTest, ReadWhole_BeyondTheLimit_IsRefused) {
  WriteFile(path_ + "/file", "12345");
  EXPECT_EQ(*files_->ReadWhole(path_ + "/file", 5), "12345");
  EXPECT_TRUE(absl::IsResourceExhausted(files_->ReadWhole(path_ + "/file", 4).status()));
  EXPECT_TRUE(absl::IsNotFound(files_->ReadWhole(path_ + "/none", 4).status()));
}

}  // namespace
}  // namespace strata::checkpoint
