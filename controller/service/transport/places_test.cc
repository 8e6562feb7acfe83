#include "controller/service/transport/places.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

// Connections to a port of this machine from any of its loopback addresses.
class PlacesTest : public testing::Test {
 protected:
  PlacesTest() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, Address("127.0.0.1"), sizeof(at_)), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    socklen_t size = sizeof(at_);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&at_), &size), 0);
    port_ = at_.sin_port;
  }
  ~PlacesTest() override {
    close(listener_);
    for (const int file : files_) close(file);
  }
  const sockaddr* Address(const char* host, in_port_t port = 0) {
    at_ = {};
    at_.sin_family = AF_INET;
    at_.sin_port = port;
    EXPECT_EQ(inet_pton(AF_INET, host, &at_.sin_addr), 1);
    return reinterpret_cast<const sockaddr*>(&at_);
  }
  // The server's end.
  int Connect(const char* from) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(client, Address(from), sizeof(at_)), 0);
    EXPECT_EQ(connect(client, Address("127.0.0.1", port_), sizeof(at_)), 0);
    files_.push_back(client);
    return accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  }
  // The connection, if it was given a place; else -1.
  int Take(const char* from) {
    const int file = Connect(from);
    if (places_.Take(file)) return file;
    close(file);
    return -1;
  }

  const common::MonotonicClock clock_{};
  NodeSources nodes_;
  Places places_{8, &nodes_, &clock_, /*look_seconds=*/0};
  sockaddr_in at_{};
  int listener_ = -1;
  in_port_t port_ = 0;
  std::vector<int> files_;
};

TEST_F(PlacesTest, OneSourceHasAtMostHalfAndGuestsLeaveRoomForNodes) {
  std::vector<int> first;
  for (int i = 0; i < 4; ++i) first.push_back(Take("127.0.0.2"));
  for (const int file : first) EXPECT_GE(file, 0);
  EXPECT_EQ(Take("127.0.0.2"), -1);
  EXPECT_GE(Take("127.0.0.3"), 0);
  EXPECT_GE(Take("127.0.0.3"), 0);
  EXPECT_EQ(Take("127.0.0.4"), -1);  // two are left for nodes
  nodes_.Add("127.0.0.4");
  EXPECT_GE(Take("127.0.0.4"), 0);
  EXPECT_GE(Take("127.0.0.4"), 0);
  close(first.back());
  EXPECT_GE(Take("127.0.0.2"), 0);
  EXPECT_EQ(Take("127.0.0.2"), -1);
}

TEST_F(PlacesTest, ANumberThatIsGivenAgainCountsOnce) {
  for (int i = 0; i < 50; ++i) {
    const int file = Take("127.0.0.2");
    ASSERT_GE(file, 0);
    close(file);
  }
}

TEST(SourceOf, AUnixConnectionIsItsUser) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_EQ(SourceOf(pair[0]), absl::StrCat("uid:", geteuid()));
  close(pair[0]);
  close(pair[1]);
  EXPECT_EQ(SourceOf(pair[0]), "");
}

}  // namespace
}  // namespace strata::controller
