#include "controller/service/transport/unix_relay.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "controller/service/transport/peer_user.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

Identity Named(const std::string& name) { return *ParseIdentity("users/" + name, "unix"); }

// Everything until the other side has ended; `files` block.
std::string ReadAll(int file) {
  std::string all;
  char buffer[4096];
  for (ssize_t count; (count = read(file, buffer, sizeof(buffer))) > 0;) all.append(buffer, count);
  return all;
}
void WriteAll(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = send(file, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    ASSERT_GT(count, 0);
    done += count;
  }
}
void Block(int file) { EXPECT_EQ(fcntl(file, F_SETFL, 0), 0); }

// As gRPC names it.
std::string PeerOf(int file) {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  EXPECT_EQ(getpeername(file, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return "unix-abstract:" +
         std::string(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
}

class UnixRelayTest : public testing::Test {
 protected:
  UnixRelayTest() { relay_ = *UnixRelay::Start(); }
  struct Ends {
    int client = -1;
    int server = -1;
  };
  Ends Connect(const std::string& name) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const auto server = relay_->Add(pair[1], Named(name));
    EXPECT_TRUE(server.ok()) << server.status();
    Block(*server);
    return {pair[0], *server};
  }
  std::unique_ptr<UnixRelay> relay_;
};

TEST_F(UnixRelayTest, EachConnectionIsKnownByItsPeersName) {
  const Ends alice = Connect("alice");
  const Ends bob = Connect("bob");
  EXPECT_EQ(relay_->Find(PeerOf(alice.server))->ToString(), "users/alice");
  EXPECT_EQ(relay_->Find(PeerOf(bob.server))->ToString(), "users/bob");
  EXPECT_EQ(relay_->Find("unix-abstract:strata-0"), nullptr);
  EXPECT_EQ(relay_->Find("unix:"), nullptr);
  for (const int file : {alice.client, alice.server, bob.client, bob.server}) close(file);
}

TEST_F(UnixRelayTest, BytesPassBothWaysAndEndsAreTold) {
  const Ends ends = Connect("alice");
  std::string much(5 << 20, 'x');
  for (size_t i = 0; i < much.size(); ++i) much[i] = static_cast<char>(i * 31 % 251);
  std::thread client([&] {
    WriteAll(ends.client, much);
    shutdown(ends.client, SHUT_WR);
  });
  EXPECT_EQ(ReadAll(ends.server), much);
  client.join();
  std::thread server([&] {
    WriteAll(ends.server, much);
    close(ends.server);
  });
  EXPECT_EQ(ReadAll(ends.client), much);
  server.join();
  close(ends.client);
}

TEST_F(UnixRelayTest, WhoHasGoneIsForgotten) {
  Ends ends = Connect("alice");
  const std::string peer = PeerOf(ends.server);
  ASSERT_NE(relay_->Find(peer), nullptr);
  close(ends.client);
  EXPECT_EQ(ReadAll(ends.server), "");
  close(ends.server);
  while (relay_->Find(peer) != nullptr) std::this_thread::yield();
  // The server's end alone is enough: nobody hears what such a client says.
  ends = Connect("bob");
  const std::string second = PeerOf(ends.server);
  close(ends.server);
  EXPECT_EQ(ReadAll(ends.client), "");
  while (relay_->Find(second) != nullptr) std::this_thread::yield();
  close(ends.client);
}

// Whoever does not read holds up nobody else.
TEST_F(UnixRelayTest, AConnectionThatIsNotReadLeavesTheOthersAlone) {
  const Ends stuck = Connect("alice");
  std::thread writer([&] {
    const std::string text(1 << 20, 'x');
    while (send(stuck.client, text.data(), text.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const Ends other = Connect("bob");
  for (int i = 0; i < 100; ++i) {
    WriteAll(other.client, "ping");
    char answer[4];
    ASSERT_EQ(recv(other.server, answer, sizeof(answer), MSG_WAITALL), 4);
  }
  close(stuck.server);
  writer.join();
  for (const int file : {stuck.client, other.client, other.server}) close(file);
}

TEST_F(UnixRelayTest, ItsEndEndsAllConnections) {
  const Ends ends = Connect("alice");
  relay_ = nullptr;
  EXPECT_EQ(ReadAll(ends.client), "");
  EXPECT_EQ(ReadAll(ends.server), "");
  close(ends.client);
  close(ends.server);
}

TEST(PeerUser, IsWhoeverConnected) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const auto user = PeerUser(pair[0]);
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(user->by, "unix");
  EXPECT_TRUE(user->is_owner);
  EXPECT_EQ(*user, [] {
    Identity same = UserOfUid(geteuid(), getegid(), "unix");
    same.is_owner = true;
    return same;
  }());
  EXPECT_THAT(user->groups, testing::Not(testing::IsEmpty()));
  for (const int file : pair) close(file);
  EXPECT_FALSE(PeerUser(-1).ok());
}

TEST(PeerUser, IdsWithoutANameAreNumbers) {
  const Identity nameless = UserOfUid(4'000'000'001, 4'000'000'002, "unix");
  EXPECT_EQ(nameless.ToString(), "users/uid-4000000001");
  EXPECT_THAT(nameless.groups, testing::ElementsAre("gid-4000000002"));
  EXPECT_FALSE(nameless.is_owner);
  const Identity root = UserOfUid(0, 0, "munge");
  EXPECT_EQ(root.ToString(), "users/root");
  EXPECT_EQ(root.by, "munge");
  EXPECT_THAT(root.groups, testing::Contains("root"));
}

}  // namespace
}  // namespace strata::controller
