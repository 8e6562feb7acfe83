#include "client/local_cluster/cluster_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/local_cluster/back_off.h"
#include "client/local_cluster/process_id.h"

namespace strata::client {
namespace {

TEST(SocketPath, IsShortWhateverTheFoldersPath) {
  EXPECT_EQ(*ClusterFolder("/a").SocketPath(), "/a/controller.sock");
  const auto path = ClusterFolder("/" + std::string(200, 'x')).SocketPath();
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(*path, testing::StartsWith(absl::StrCat("/tmp/strata-", geteuid(), "/")));
  EXPECT_NE(*path, *ClusterFolder("/" + std::string(201, 'x')).SocketPath());
  struct stat info = {};
  ASSERT_EQ(stat(absl::StrCat("/tmp/strata-", geteuid()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(BackOffTest, DoublesUpToTheLongestAndBeginsAgainAfterAGoodLife) {
  BackOff back_off;
  EXPECT_DOUBLE_EQ(back_off.After(0), 0.1);
  EXPECT_DOUBLE_EQ(back_off.After(1), 0.2);
  EXPECT_DOUBLE_EQ(back_off.After(9.9), 0.4);
  for (int i = 0; i < 10; ++i) back_off.After(0);
  EXPECT_DOUBLE_EQ(back_off.After(0), 8);
  EXPECT_DOUBLE_EQ(back_off.After(10), 0.1);
  EXPECT_DOUBLE_EQ(back_off.After(0), 0.2);
}

TEST(ProcessIdTest, AnotherProcessWithTheSamePidIsNotTouched) {
  const auto self = ProcessWithPid(getpid());
  ASSERT_TRUE(self.has_value());
  const ProcessId other = {self->pid, self->start + 1};
  EXPECT_FALSE(IsAlive(other));
  EXPECT_FALSE(SendSignal(other, SIGKILL));
  EXPECT_EQ(OpenProcess(other), -1);
}

}  // namespace
}  // namespace strata::client
