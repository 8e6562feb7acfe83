#include "common/small_file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace strata::common {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    std::string name = testing::TempDir() + "/small-file-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SmallFileTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(SmallFileTest, IsReplacedWholeAndReadBack) {
  const std::string path = folder_ + "/file", large(100'000, 'x');
  for (const bool durable : {false, true}) {
    ASSERT_TRUE(ReplaceFile(path, "old", durable).ok());
    ASSERT_TRUE(ReplaceFile(path, large, durable).ok());
    EXPECT_EQ(*ReadFile(path), large);
    EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  }
}

TEST_F(SmallFileTest, WhatACrashLeftBehindIsTaken) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(ReplaceFile(path + ".new", "half of something longer", /*durable=*/false).ok());
  ASSERT_TRUE(ReplaceFile(path, "new", /*durable=*/false).ok());
  EXPECT_EQ(*ReadFile(path), "new");
}

TEST_F(SmallFileTest, ALinkInItsPlaceIsNotFollowed) {
  const std::string path = folder_ + "/file", other = folder_ + "/other";
  ASSERT_TRUE(ReplaceFile(other, "somebody's", /*durable=*/false).ok());
  std::filesystem::create_symlink(other, path + ".new");
  EXPECT_TRUE(absl::IsInvalidArgument(ReplaceFile(path, "new", /*durable=*/false)));
  EXPECT_EQ(*ReadFile(other), "somebody's");
}

TEST_F(SmallFileTest, ErrorsNameThePath) {
  const std::string path = folder_ + "/none";
  EXPECT_TRUE(absl::IsNotFound(ReadFile(path).status()));
  EXPECT_EQ(TextOf(path), "");
  EXPECT_EQ(ReadFile(folder_).status().message(), folder_ + ": Is a directory (read)");
  EXPECT_EQ(ReplaceFile(path + "/file", "x", /*durable=*/false).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(SmallFileTest, FilesOfProcAreReadThoughTheyTellNoSize) {
  EXPECT_NE(TextOf("/proc/self/stat"), "");
}

}  // namespace
}  // namespace strata::common
