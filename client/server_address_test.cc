#include "client/server_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace strata::client {
namespace {

using testing::HasSubstr;

TEST(ParseServerAddress, HostAndPort) {
  const auto v4 = ParseServerAddress("localhost:7070");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "localhost");
  EXPECT_EQ(v4->port, 7070);
  const auto v6 = ParseServerAddress("[::1]:80");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->ToString(), "[::1]:80");
}

TEST(ParseServerAddress, SocketsHavePathsThatAreNotTooLong) {
  const auto socket = ParseServerAddress("unix:/run/strata/controller.sock");
  ASSERT_TRUE(socket.ok());
  EXPECT_TRUE(socket->is_unix());
  EXPECT_TRUE(socket->is_loopback());
  EXPECT_EQ(socket->path, "/run/strata/controller.sock");
  EXPECT_EQ(socket->ToString(), "unix:/run/strata/controller.sock");
  const std::string longest = "unix:/" + std::string(kLongestSocketPath - 1, 'x');
  EXPECT_TRUE(ParseServerAddress(longest).ok());
  EXPECT_THAT(std::string(ParseServerAddress(longest + "x").status().message()),
              HasSubstr("108 bytes long"));
}

TEST(ServerAddress, IsReachedWhereItListensOnAllAddresses) {
  EXPECT_EQ(ParseServerAddress("0.0.0.0:1")->Reached().ToString(), "127.0.0.1:1");
  EXPECT_EQ(ParseServerAddress("[::]:1")->Reached().ToString(), "[::1]:1");
  EXPECT_EQ(ParseServerAddress("10.0.0.7:1")->Reached().ToString(), "10.0.0.7:1");
  EXPECT_EQ(ParseServerAddress("unix:/a")->Reached().ToString(), "unix:/a");
}

TEST(ParseServerAddress, EverythingElseIsRefusedByName) {
  for (const char* text :
       {"nowhere:port", "host", ":1", "host:0", "host:65536", "::1:80", "host:-1", "unix:", ""}) {
    const auto address = ParseServerAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(text));
  }
}

TEST(ResolveServer, FlagThenVariableThenRememberedThenNone) {
  const std::string state = testing::TempDir() + "/state";
  std::filesystem::remove_all(state);
  setenv("XDG_STATE_HOME", state.c_str(), 1);
  unsetenv("STRATA_SERVER");
  const auto none = ResolveServer("");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("strata up"));
  std::filesystem::create_directories(state + "/strata");
  std::ofstream(RememberedServerFile()) << "127.0.0.1:3\n";
  EXPECT_EQ(ResolveServer("")->port, 3);
  setenv("STRATA_SERVER", "127.0.0.1:2", 1);
  EXPECT_EQ(ResolveServer("")->port, 2);
  EXPECT_EQ(ResolveServer("127.0.0.1:1")->port, 1);
}

TEST(RememberCluster, IsReadBackUntilForgotten) {
  setenv("XDG_STATE_HOME", (testing::TempDir() + "/remembered").c_str(), 1);
  unsetenv("STRATA_SERVER");
  ASSERT_TRUE(RememberCluster({"127.0.0.1:4", "/some/folder"}).ok());
  EXPECT_EQ(ReadRememberedCluster().directory, "/some/folder");
  EXPECT_EQ(ResolveServer("")->port, 4);
  ForgetCluster();
  EXPECT_EQ(ReadRememberedCluster().server, "");
  EXPECT_FALSE(ResolveServer("").ok());
}

}  // namespace
}  // namespace strata::client
