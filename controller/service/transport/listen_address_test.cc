#include "controller/service/transport/listen_address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

TEST(ListenAddress, IsReadAndLoopbackIsKnown) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:80")->ToString(), "127.0.0.1:80");
  EXPECT_EQ(ParseListenAddress("[::1]:0")->ToString(), "[::1]:0");
  EXPECT_TRUE(ParseListenAddress("localhost:1")->is_loopback());
  EXPECT_TRUE(ParseListenAddress("[::1]:1")->is_loopback());
  EXPECT_FALSE(ParseListenAddress("0.0.0.0:1")->is_loopback());
  const auto socket = ParseListenAddress("unix:/run/strata/controller.sock");
  ASSERT_TRUE(socket.ok());
  EXPECT_TRUE(socket->is_unix());
  EXPECT_TRUE(socket->is_loopback());
  EXPECT_EQ(socket->path, "/run/strata/controller.sock");
  EXPECT_EQ(socket->ToString(), "unix:/run/strata/controller.sock");
  const std::string longest = "unix:/" + std::string(106, 'x');
  EXPECT_TRUE(ParseListenAddress(longest).ok());
  EXPECT_THAT(std::string(ParseListenAddress(longest + "x").status().message()),
              testing::HasSubstr("108 bytes long, and a socket's is 107 at most"));
  for (const char* bad :
       {"", ":1", "host", "host:", "host:x", "host:70000", "host:-1", "::1:80", "unix:"}) {
    EXPECT_FALSE(ParseListenAddress(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace strata::controller
