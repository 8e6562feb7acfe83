#include "common/path_roots.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace strata::common {
namespace {

namespace fs = std::filesystem;

TEST(LiesBeneathTest, ByParts) {
  EXPECT_TRUE(LiesBeneath("/data/a/x", "/data/a"));
  EXPECT_TRUE(LiesBeneath("/data/a/", "/data/a"));
  EXPECT_TRUE(LiesBeneath("/data/a", "/data/a/"));
  EXPECT_TRUE(LiesBeneath("/data/a", "/"));
  EXPECT_FALSE(LiesBeneath("/data/ab", "/data/a"));
  EXPECT_FALSE(LiesBeneath("/data", "/data/a"));
  EXPECT_FALSE(LiesBeneath("/data/a/../b", "/data/a"));
  EXPECT_FALSE(LiesBeneath("data/a", "data/a"));
  EXPECT_FALSE(LiesBeneath("", "/"));
}

class PathRootsTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(base_);
    fs::create_directories(base_ / "root/sub");
    fs::create_directories(base_ / "outside");
    std::ofstream(base_ / "root/sub/file") << "inside";
    std::ofstream(base_ / "outside/file") << "outside";
    auto roots = PathRoots::Open({(base_ / "root").string()});
    ASSERT_TRUE(roots.ok()) << roots.status();
    roots_ = *std::move(roots);
  }
  void TearDown() override { fs::remove_all(base_); }

  std::string Path(const std::string& rest) const { return (base_ / rest).string(); }

  // errno of opening it; 0: it was opened.
  int Open(const std::string& rest, int flags = O_RDONLY) const {
    const int file = roots_.OpenFile(Path(rest), flags, 0600);
    if (file < 0) return errno;
    close(file);
    return 0;
  }

  const fs::path base_ = fs::path(std::getenv("TEST_TMPDIR")) / "roots";
  PathRoots roots_;
};

TEST_F(PathRootsTest, OpensWhatLiesBeneath) {
  EXPECT_EQ(Open("root/sub/file"), 0);
  EXPECT_EQ(Open("root/new", O_WRONLY | O_CREAT), 0);
  EXPECT_EQ(Open("root", O_RDONLY | O_DIRECTORY), 0);
  EXPECT_EQ(Open("root/missing"), ENOENT);
}

TEST_F(PathRootsTest, RefusesWhatDoesNot) {
  EXPECT_EQ(Open("outside/file"), EACCES);
  EXPECT_EQ(Open("root/../outside/file"), EACCES);
  EXPECT_EQ(Open("rooted"), EACCES);
}

TEST_F(PathRootsTest, FollowsNoLinks) {
  fs::create_symlink(base_ / "outside/file", base_ / "root/last");
  fs::create_directory_symlink(base_ / "outside", base_ / "root/middle");
  fs::create_directory_symlink(base_ / "root/sub", base_ / "root/harmless");
  EXPECT_EQ(Open("root/last"), ELOOP);
  EXPECT_EQ(Open("root/middle/file"), ELOOP);
  EXPECT_EQ(Open("root/harmless/file"), ELOOP);
  EXPECT_EQ(Open("root/middle/new", O_WRONLY | O_CREAT), ELOOP);
  EXPECT_FALSE(fs::exists(base_ / "outside/new"));
  EXPECT_LT(roots_.MakeFolders(Path("root/middle/deep/er"), 0700), 0);
  EXPECT_FALSE(fs::exists(base_ / "outside/deep"));
}

TEST_F(PathRootsTest, LinksToTheRootItselfAreTheOperators) {
  fs::create_directory_symlink(base_ / "root", base_ / "alias");
  const auto roots = PathRoots::Open({Path("alias")});
  ASSERT_TRUE(roots.ok()) << roots.status();
  const int file = roots->OpenFile(Path("alias/sub/file"), O_RDONLY);
  EXPECT_GE(file, 0);
  close(file);
}

TEST_F(PathRootsTest, MakesFoldersBeneath) {
  const int made = roots_.MakeFolders(Path("root/a/b/c"), 0700);
  ASSERT_GE(made, 0) << errno;
  close(made);
  EXPECT_TRUE(fs::is_directory(base_ / "root/a/b/c"));
  EXPECT_LT(roots_.MakeFolders(Path("outside/a"), 0700), 0);
  EXPECT_FALSE(fs::exists(base_ / "outside/a"));
  EXPECT_TRUE(roots_.IsAbove(base_.string()));
  EXPECT_FALSE(roots_.IsAbove(Path("root")));
}

// A folder and a link out of the root take turns under one name.
TEST_F(PathRootsTest, ASwapWhileItIsOpenedDoesNotEscape) {
  fs::create_directory_symlink(base_ / "outside", base_ / "link");
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    const std::string sub = Path("root/sub"), link = Path("link");
    while (!done) {
      renameat2(AT_FDCWD, sub.c_str(), AT_FDCWD, link.c_str(), 2 /* RENAME_EXCHANGE */);
    }
  });
  int inside = 0, refused = 0;
  for (int i = 0; i < 1000000 && (i < 2000 || inside == 0 || refused == 0); ++i) {
    const int file = roots_.OpenFile(Path("root/sub/file"), O_RDONLY);
    if (file < 0) {
      ++refused;
      continue;
    }
    char text[16] = {};
    EXPECT_GT(read(file, text, sizeof(text) - 1), 0);
    close(file);
    ASSERT_STREQ(text, "inside");
    ++inside;
  }
  done = true;
  swapper.join();
  EXPECT_GT(inside, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(PathRootsTest, RemovingRemovesLinksNotWhatTheyLeadTo) {
  fs::create_directories(base_ / "root/tree/deep");
  std::ofstream(base_ / "root/tree/deep/file") << "x";
  fs::create_directory_symlink(base_ / "outside", base_ / "root/tree/link");
  EXPECT_EQ(RemoveTree(AT_FDCWD, Path("root/tree").c_str()), 0);
  EXPECT_FALSE(fs::exists(base_ / "root/tree"));
  EXPECT_TRUE(fs::exists(base_ / "outside/file"));
  EXPECT_EQ(RemoveTree(AT_FDCWD, Path("root/tree").c_str()), 0) << "there is none";
}

TEST_F(PathRootsTest, ASwapWhileItIsRemovedDoesNotEscape) {
  fs::create_directory_symlink(base_ / "outside", base_ / "link");
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    const std::string sub = Path("root/tree/sub"), link = Path("link");
    while (!done) {
      renameat2(AT_FDCWD, sub.c_str(), AT_FDCWD, link.c_str(), 2 /* RENAME_EXCHANGE */);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    std::error_code raced;
    fs::create_directories(base_ / "root/tree/sub", raced);
    RemoveTree(AT_FDCWD, Path("root/tree").c_str());  // it may fail, as others write there
    ASSERT_TRUE(fs::exists(base_ / "outside/file")) << i;
    if (fs::is_symlink(base_ / "link", raced)) continue;
    fs::remove_all(base_ / "link", raced);
    fs::create_directory_symlink(base_ / "outside", base_ / "link", raced);
  }
  done = true;
  swapper.join();
}

TEST_F(PathRootsTest, RootsThatAreNone) {
  EXPECT_TRUE(absl::IsInvalidArgument(PathRoots::Open({"relative"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(PathRoots::Open({Path("outside/file")}).status()));
  // One that is not there allows nothing.
  const auto missing = PathRoots::Open({Path("missing")});
  ASSERT_TRUE(missing.ok());
  EXPECT_LT(missing->OpenFile(Path("root/sub/file"), O_RDONLY), 0);
  // Without any, paths mean what they do.
  const auto none = PathRoots::Open({});
  ASSERT_TRUE(none.ok());
  const int file = none->OpenFile(Path("outside/file"), O_RDONLY);
  EXPECT_GE(file, 0);
  close(file);
}

}  // namespace
}  // namespace strata::common
