// Strangers at the ports of ranks.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/conformance.h"
#include "collectives/connection_mark.h"
#include "collectives/process_endpoint.h"
#include "collectives/process_world.h"
#include "common/status_macros.h"

namespace strata::collectives {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ConformanceTest);  // ucx_test runs it

namespace {

constexpr int kPatienceMs = 20000;
const WorldKey kKey = {.nonce = std::string(kNonceBytes, 'n'), .epoch = 7};
const ProcessOptions kLoopbackTcp = {.devices = "lo", .shared_memory = false};

// Where this process listens.
std::vector<sockaddr_in> Listeners() {
  std::vector<sockaddr_in> found;
  for (int file = 3; file < 1024; ++file) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    sockaddr_in address = {};
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    size = sizeof(address);
    if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_family == AF_INET) {
      found.push_back(address);
    }
  }
  return found;
}

// What it is answered: empty when the connection is closed.
std::string Say(const sockaddr_in& to, const std::string& words, std::string* own = nullptr) {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  if (own != nullptr) *own = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  EXPECT_EQ(send(file, words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  pollfd waiting = {file, POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, kPatienceMs), 1) << "neither answered nor refused";
  char answer[256];
  const ssize_t got = recv(file, answer, sizeof(answer), MSG_DONTWAIT);
  close(file);
  return got > 0 ? std::string(answer, static_cast<size_t>(got)) : "";
}

class StrangerTest : public testing::Test {
 protected:
  // Rank 1 of three, whose peers are only names.
  void SetUp() override {
    std::vector<std::unique_ptr<ProcessEndpoint>> endpoints;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 3; ++rank) {
      auto endpoint = ProcessEndpoint::Create(kLoopbackTcp);
      ASSERT_TRUE(endpoint.ok()) << endpoint.status();
      addresses.push_back((*endpoint)->Address());
      if (rank == 1) listeners_ = Listeners();
      if (rank == 0) first_ = Listeners();
      endpoints.push_back(*std::move(endpoint));
    }
    ASSERT_EQ(first_.size(), 1u) << "one interface, one socket";
    ASSERT_EQ(listeners_.size(), 2u);
    std::erase_if(listeners_,
                  [&](const auto& each) { return each.sin_port == first_[0].sin_port; });
    EXPECT_EQ(listeners_[0].sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    auto communicator = ProcessEndpoint::Connect(std::move(endpoints[1]), 1, addresses, kKey);
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    communicator_ = *std::move(communicator);
    others_ = std::move(endpoints);
  }

  std::string SayTo(const std::string& words, std::string* own = nullptr) {
    return Say(listeners_[0], words, own);
  }

  std::vector<sockaddr_in> first_, listeners_;
  std::vector<std::unique_ptr<ProcessEndpoint>> others_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(StrangerTest, WhoKnowsTheNonceIsAnsweredWithTheProofOfIt) {
  const std::string challenge(kChallengeBytes, 'c');
  const std::string answer = SayTo(MakeMark(kKey, 2, 1, challenge));
  EXPECT_TRUE(CheckAnswer(kKey, 2, 1, challenge, answer.substr(0, kAnswerBytes)));
}

TEST_F(StrangerTest, WhoOverheardAConnectionCannotRepeatIt) {
  const std::string mark = MakeMark(kKey, 2, 1, std::string(kChallengeBytes, 'c'));
  EXPECT_NE(SayTo(mark), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(SayTo(mark), "");
  EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStderr(), "it repeats"));
  EXPECT_NE(SayTo(MakeMark(kKey, 2, 1, std::string(kChallengeBytes, 'd'))), "");
}

TEST_F(StrangerTest, OthersAreRefusedByAddress) {
  const std::string challenge(kChallengeBytes, 'c');
  const WorldKey wrong = {.nonce = std::string(kNonceBytes, 'x'), .epoch = 7};
  const WorldKey stale = {.nonce = kKey.nonce, .epoch = 6};
  const std::pair<std::string, const char*> strangers[] = {
      {MakeMark(wrong, 2, 1, challenge), "without this epoch's nonce"},
      {MakeMark(stale, 2, 1, challenge), "of epoch 6"},
      {std::string(200, '\xff'), "does not begin"},
      {"x", "does not begin"}};
  for (const auto& [words, why] : strangers) {
    std::string own;
    testing::internal::CaptureStderr();
    EXPECT_EQ(SayTo(words, &own), "") << why;
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(absl::StrContains(told, absl::StrCat("rank 1 refuses a connection from ", own)))
        << told;
    EXPECT_TRUE(absl::StrContains(told, why)) << told;
  }
}

absl::Status SumOnce(Communicator& communicator) {
  ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
  constexpr int64_t kCount = 1 << 16;
  std::vector<float> data(kCount, 1.0f);
  Scratch scratch(OpKind::kAllReduce, DataType::kF32, kCount, communicator.size());
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kAllReduce,
                                              .group = group,
                                              .type = DataType::kF32,
                                              .count = kCount,
                                              .in = data.data(),
                                              .out = data.data(),
                                              .scratch = scratch.data(),
                                              .scratch_bytes = scratch.bytes()}));
  for (const float value : data) {
    if (value != static_cast<float>(communicator.size())) return Differs("a wrong sum");
  }
  return absl::OkStatus();
}

TEST(ConnectionGuardTest, StrangersAmongTheRanksChangeNothing) {
  const RankBody body = [](Communicator& communicator) {
    for (const sockaddr_in& listener : Listeners()) {
      if (!Say(listener, std::string(100, '\1')).empty()) return Differs("it was let in");
    }
    RETURN_IF_ERROR(SumOnce(communicator));
    for (const sockaddr_in& listener : Listeners()) {
      if (!Say(listener, std::string(100, '\1')).empty()) return Differs("it was let in");
    }
    return SumOnce(communicator);
  };
  for (const auto& result : RunInProcesses(kLoopbackTcp, 3, body, {})) {
    EXPECT_TRUE(result.ok()) << result;
  }
}

// A rank of an earlier start, or of another job, cannot join.
TEST(ConnectionGuardTest, ARankOfAnotherWorldIsNotHeard) {
  for (const WorldKey& other : {WorldKey{.nonce = kKey.nonce, .epoch = 6},
                                WorldKey{.nonce = std::string(kNonceBytes, 'x'), .epoch = 7}}) {
    const auto key = [&](int rank) { return rank == 1 ? other : kKey; };
    const auto results = RunInProcesses(kLoopbackTcp, 2, SumOnce, {.key = key});
    for (const auto& result : results) EXPECT_FALSE(result.ok());
  }
}

TEST(ConnectionGuardTest, WithoutANonceThereIsNoWorld) {
  auto endpoint = ProcessEndpoint::Create(kLoopbackTcp);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const std::string own = (*endpoint)->Address();
  const auto communicator = ProcessEndpoint::Connect(*std::move(endpoint), 0, {own}, {});
  EXPECT_EQ(communicator.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(communicator.status().message(), "nonce"));
}

}  // namespace
}  // namespace strata::collectives
