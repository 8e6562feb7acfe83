#include "client/server_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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

TEST(ParseServerAddress, EverythingElseIsRefusedByName) {
  for (const char* text :
       {"nowhere:port", "host", ":1", "host:0", "host:65536", "::1:80", "host:-1", ""}) {
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

TEST(CheckReachable, ListenerAnswersAndClosedPortDoesNot) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const ServerAddress server{"127.0.0.1", ntohs(address.sin_port)};
  EXPECT_TRUE(CheckReachable(server, absl::Seconds(60)).ok());
  close(listener);
  const absl::Status gone = CheckReachable(server, absl::Seconds(60));
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), HasSubstr(server.ToString()));
}

}  // namespace
}  // namespace strata::client
