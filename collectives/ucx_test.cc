#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/conformance.h"
#include "collectives/ucx_communicator.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// A test that hangs ends with the process that hangs, not only with Bazel's patience.
constexpr unsigned kMostSeconds = 120;

bool WriteAll(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(file, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool ReadAll(int file, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = read(file, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool WriteText(int file, const std::string& text) {
  const uint64_t size = text.size();
  return WriteAll(file, &size, sizeof(size)) && WriteAll(file, text.data(), size);
}

bool ReadText(int file, std::string* text) {
  uint64_t size = 0;
  if (!ReadAll(file, &size, sizeof(size)) || size > 1 << 20) return false;
  text->resize(size);
  return ReadAll(file, text->data(), size);
}

// In the child: join over the socket, run, report; the parent's next byte means that another rank
// failed.
absl::Status RunRank(const UcxOptions& options, int socket, int rank, int size,
                     const RankBody& body) {
  ASSIGN_OR_RETURN(auto endpoint, UcxEndpoint::Create(options));
  if (!WriteText(socket, endpoint->Address())) return absl::UnavailableError("the parent is gone");
  std::vector<std::string> addresses(size);
  for (std::string& address : addresses) {
    if (!ReadText(socket, &address)) return absl::UnavailableError("the parent is gone");
  }
  ASSIGN_OR_RETURN(auto communicator, UcxEndpoint::Connect(std::move(endpoint), rank, addresses));
  std::thread watcher([&] {
    char byte = 0;
    if (ReadAll(socket, &byte, 1) && byte == 'x')
      communicator->Cancel(absl::AbortedError("another rank failed"));
  });
  absl::Status status = body(*communicator);
  // A rank that is done stays until all are, as trainers do: the parent's other byte.
  STRATA_CHECK(
      WriteText(socket, absl::StrCat(static_cast<int>(status.code()), " ", status.message())));
  watcher.join();
  return status;
}

struct Child {
  pid_t pid = 0;
  int socket = -1;
};

Child Start(const UcxOptions& options, int rank, int size, const RankBody& body) {
  int sockets[2];
  STRATA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  const pid_t pid = fork();
  STRATA_CHECK(pid >= 0);
  if (pid == 0) {
    close(sockets[0]);
    alarm(kMostSeconds);
    const absl::Status status = RunRank(options, sockets[1], rank, size, body);
    if (!status.ok())
      WriteText(sockets[1], absl::StrCat(static_cast<int>(status.code()), " ", status.message()));
    _exit(0);
  }
  close(sockets[1]);
  return {pid, sockets[0]};
}

absl::Status ParseResult(const std::string& text) {
  const size_t space = text.find(' ');
  return absl::Status(static_cast<absl::StatusCode>(std::stoi(text)), text.substr(space + 1));
}

// Results in the order in which ranks report; the first failure is told to all others.
std::vector<absl::Status> Collect(const std::vector<Child>& children) {
  std::vector<absl::Status> results(children.size());
  std::vector<std::thread> readers;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    readers.emplace_back([&, rank] {
      std::string text;
      results[rank] =
          ReadText(children[rank].socket, &text) ? ParseResult(text) : absl::UnknownError("died");
      if (results[rank].ok()) return;
      for (const Child& other : children) WriteAll(other.socket, "x", 1);
    });
  }
  for (std::thread& reader : readers) reader.join();
  for (const Child& child : children) WriteAll(child.socket, "e", 1);
  for (const Child& child : children) {
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(child.socket);
  }
  return results;
}

std::vector<absl::Status> RunInProcesses(const UcxOptions& options, int size,
                                         const RankBody& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) children.push_back(Start(options, rank, size, body));
  std::vector<std::string> addresses(size);
  for (int rank = 0; rank < size; ++rank) ReadText(children[rank].socket, &addresses[rank]);
  for (const Child& child : children) {
    for (const std::string& address : addresses) WriteText(child.socket, address);
  }
  return Collect(children);
}

Backend UcxBackend(const std::string& name, const std::string& transports) {
  return {name,
          [transports](int size, const RankBody& body) {
            return RunInProcesses({.transports = transports}, size, body);
          },
          {1, 2, 3, 4}};
}

const Backend kSharedMemory = UcxBackend("SharedMemory", "sm,tcp,self");
const Backend kTcp = UcxBackend("Tcp", "tcp,self");

INSTANTIATE_TEST_SUITE_P(Ucx, ConformanceTest, testing::Values(kSharedMemory, kTcp),
                         [](const auto& info) { return info.param.name; });

// The second rank of three kills itself in the middle of a long all-reduce.
absl::Status DieInAllReduce(Communicator& communicator) {
  ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
  RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group}));
  constexpr int64_t kCount = 4 << 20;
  std::vector<float> data(kCount);
  Scratch scratch(OpKind::kAllReduce, DataType::kF32, kCount, communicator.size());
  const Operation reduce = {.kind = OpKind::kAllReduce,
                            .group = group,
                            .type = DataType::kF32,
                            .count = kCount,
                            .in = data.data(),
                            .out = data.data(),
                            .scratch = scratch.data(),
                            .scratch_bytes = scratch.bytes()};
  if (communicator.rank() == 1) {
    RETURN_IF_ERROR(communicator.Post(reduce).status());
    communicator.Progress();
    raise(SIGKILL);
  }
  return RunOperation(communicator, reduce);
}

TEST(UcxDeathTest, KilledPeer_InSharedMemory_OthersFailOnceCancelled) {
  const auto results = kSharedMemory.run(3, DieInAllReduce);
  EXPECT_EQ(results[1].code(), absl::StatusCode::kUnknown);
  for (const int rank : {0, 2}) EXPECT_FALSE(results[rank].ok()) << rank;
}

// Nobody cancels before the survivors have failed by themselves.
TEST(UcxDeathTest, KilledPeer_OverTcp_OthersFailByThemselvesAndNameIt) {
  const RankBody body = [](Communicator& communicator) {
    absl::Status status = DieInAllReduce(communicator);
    // What the runner's cancellation says is not what this is about, but it may come first.
    if (!absl::StrContains(status.message(), "rank 1 was lost") &&
        status.code() != absl::StatusCode::kAborted) {
      return Differs(status.ToString());
    }
    return absl::OkStatus();
  };
  const auto results = kTcp.run(3, body);
  for (const int rank : {0, 2}) EXPECT_TRUE(results[rank].ok()) << results[rank];
}

TEST(UcxEndpointTest, Connect_WithAddressesThatCannotBe_IsRefused) {
  for (const int kind : {0, 1, 2, 3}) {
    auto endpoint = UcxEndpoint::Create({.transports = "tcp,self"});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    const std::string own = (*endpoint)->Address();
    std::string damaged = own;
    damaged[damaged.size() / 2] ^= 1;
    const std::vector<std::vector<std::string>> lists = {
        {}, {own, "nonsense"}, {own, damaged}, {damaged, own}};
    const auto communicator = UcxEndpoint::Connect(*std::move(endpoint), 0, lists[kind]);
    EXPECT_EQ(communicator.status().code(), absl::StatusCode::kInvalidArgument) << kind;
  }
}

TEST(UcxEndpointTest, Create_WithUnknownTransport_IsUnavailableAndNamesIt) {
  const auto endpoint = UcxEndpoint::Create({.transports = "pigeon"});
  ASSERT_FALSE(endpoint.ok());
  EXPECT_TRUE(absl::StrContains(endpoint.status().message(), "pigeon")) << endpoint.status();
}

TEST(UcxEndpointTest, Create_LeavesCrashSignalsAlone) {
  struct sigaction before = {}, after = {};
  const auto endpoint = UcxEndpoint::Create({.transports = "self"});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  sigaction(SIGSEGV, nullptr, &before);
  const auto second = UcxEndpoint::Create({.transports = "self"});
  sigaction(SIGSEGV, nullptr, &after);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_EQ(after.sa_handler, SIG_DFL);
#endif
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace strata::collectives
