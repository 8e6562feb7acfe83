#include "worker/shared/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/socketXXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    // Longer than an address has room for.
    folder += "/" + std::string(200, 'd');
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    path_ = folder + "/agent.sock";
  }
  std::string path_;
};

TEST_F(UnixSocketTest, BytesArriveAtALongPath) {
  const absl::StatusOr<int> listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const absl::StatusOr<int> connected = ConnectTo(path_);
  ASSERT_TRUE(connected.ok()) << connected.status();
  const int accepted = accept(*listener, nullptr, nullptr);
  ASSERT_GE(accepted, 0);
  ASSERT_EQ(write(*connected, "x", 1), 1);
  char byte = 0;
  ASSERT_EQ(read(accepted, &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  for (const int descriptor : {*listener, *connected, accepted}) close(descriptor);
}

TEST_F(UnixSocketTest, AListenerTakesThePlaceOfADeadOne) {
  const absl::StatusOr<int> dead = ListenAt(path_);
  ASSERT_TRUE(dead.ok());
  close(*dead);
  EXPECT_EQ(ConnectTo(path_).status().code(), absl::StatusCode::kUnavailable);
  const absl::StatusOr<int> listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const absl::StatusOr<int> connected = ConnectTo(path_);
  EXPECT_TRUE(connected.ok()) << connected.status();
  close(*listener);
  if (connected.ok()) close(*connected);
}

TEST_F(UnixSocketTest, WithoutAFileNobodyListens) {
  EXPECT_EQ(ConnectTo(path_).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace strata::worker
