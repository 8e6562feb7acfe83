#include "collectives/process_endpoint.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/conformance.h"
#include "collectives/process_world.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// A test that hangs ends with the process that hangs, not only with Bazel's patience.
constexpr unsigned kMostSeconds = 120;

Backend BackendWith(const std::string& name, const ProcessOptions& options) {
  return {name,
          [options](int size, const RankBody& body) {
            return RunInProcesses(options, size, body, {.most_seconds = kMostSeconds});
          },
          {1, 2, 3, 4}};
}

const Backend kDirect = BackendWith("SharedMemory", {});
const Backend kChunks = BackendWith("SharedMemoryInChunks", {.direct = false});
const Backend kTcp = BackendWith("Tcp", {.shared_memory = false});

INSTANTIATE_TEST_SUITE_P(Processes, ConformanceTest, testing::Values(kDirect, kChunks, kTcp),
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

const ProcessOptions kWays[] = {{}, {.direct = false}, {.shared_memory = false}};

TEST(ProcessDeathTest, KilledPeer_InTheMiddleOfASum_OthersFailByThemselves_AndNameIt) {
  for (const ProcessOptions& options : kWays) {
    const auto results = RunInProcesses(options, 3, DieInAllReduce, {.cancels = false});
    EXPECT_EQ(results[1].code(), absl::StatusCode::kUnknown);
    // The second of them may find that the first one has given up.
    int named = 0;
    for (const int rank : {0, 2}) {
      EXPECT_EQ(results[rank].code(), absl::StatusCode::kUnavailable) << results[rank];
      named += absl::StrContains(results[rank].message(), "rank 1 was lost");
    }
    EXPECT_GE(named, 1) << results[0] << " | " << results[2];
  }
}

// The first rank sends without end and is killed by the second.
TEST(ProcessDeathTest, KilledSender_InTheMiddleOfALargeMessage_EndsTheReceiverWithoutACancel) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    const int rank = communicator.rank();
    int32_t process = getpid();
    Operation op = {.kind = rank == 0 ? OpKind::kSend : OpKind::kReceive,
                    .group = group,
                    .count = sizeof(process),
                    .in = &process,
                    .out = &process,
                    .peer = 1 - rank};
    RETURN_IF_ERROR(RunOperation(communicator, op));
    std::vector<std::byte> large(64 << 20);
    op.count = static_cast<int64_t>(large.size());
    op.in = op.out = large.data();
    const common::MonotonicClock clock{};
    double killed = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const OperationId id, communicator.Post(op));
      communicator.Progress();  // a part of it
      if (rank == 1 && killed == 0) {
        killed = clock.Now();
        kill(process, SIGKILL);
      }
      const absl::Status status = Finish(communicator, {id});
      if (status.ok()) continue;
      const double seconds = clock.Now() - killed;
      return rank == 1 && seconds < 10 && absl::StrContains(status.message(), "rank 0 was lost")
                 ? absl::OkStatus()
                 : Differs(absl::StrCat(status.ToString(), " after ", seconds, " s"));
    }
  };
  for (const ProcessOptions& options : kWays) {
    const auto results = RunInProcesses(options, 2, body, {.cancels = false});
    EXPECT_EQ(results[0].code(), absl::StatusCode::kUnknown);
    EXPECT_TRUE(results[1].ok()) << results[1];
  }
}

// A rank that sends what fits and leaves at once.
TEST(ProcessEndpointTest, LastMessagesOfARankThatLeaves_Arrive) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    std::vector<float> values(100'000, 1.0f + static_cast<float>(communicator.rank()));
    for (const int64_t count : {1, 1000, 100'000}) {
      const bool sends = communicator.rank() == 0;
      RETURN_IF_ERROR(RunOperation(communicator, {.kind = sends ? OpKind::kSend : OpKind::kReceive,
                                                  .group = group,
                                                  .type = DataType::kF32,
                                                  .count = count,
                                                  .in = values.data(),
                                                  .out = values.data(),
                                                  .peer = 1 - communicator.rank()}));
      if (values[count - 1] != 1.0f) return Differs(absl::StrCat(count, " elements"));
    }
    return absl::OkStatus();
  };
  for (const ProcessOptions& options : kWays) {
    for (const absl::Status& status : RunInProcesses(options, 2, body, {})) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// A rank of an earlier start, or of another job, on the same host.
TEST(ProcessEndpointTest, ARankWithAnotherNonce_IsNotHeard) {
  const RankBody body = [](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
    return RunOperation(communicator, {.kind = OpKind::kBarrier, .group = group});
  };
  const auto key = [](int rank) {
    return WorldKey{.nonce = std::string(kNonceBytes, rank == 1 ? 'x' : 'k'), .epoch = 1};
  };
  for (const auto& result : RunInProcesses({}, 2, body, {.key = key})) {
    EXPECT_FALSE(result.ok());
  }
}

TEST(ProcessEndpointTest, Connect_WithAddressesThatCannotBe_IsRefused) {
  for (const int kind : {0, 1, 2, 3}) {
    auto endpoint = ProcessEndpoint::Create({.transports = "tcp,self"});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    const std::string own = (*endpoint)->Address();
    std::string damaged = own;
    damaged[damaged.size() / 2] ^= 1;
    const std::vector<std::vector<std::string>> lists = {
        {}, {own, "nonsense"}, {own, damaged}, {damaged, own}};
    const auto communicator = ProcessEndpoint::Connect(*std::move(endpoint), 0, lists[kind],
                                                       {.nonce = std::string(kNonceBytes, 'k')});
    EXPECT_EQ(communicator.status().code(), absl::StatusCode::kInvalidArgument) << kind;
  }
}

// Three ranks in a row: the first and the last were not told of each other.
absl::Status PassAlongARow(Communicator& communicator) {
  ASSIGN_OR_RETURN(const GroupId world, WorldGroup(communicator));
  const int rank = communicator.rank(), last = communicator.size() - 1;
  float value = 7;
  if (rank > 0) {
    value = 0;
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kReceive,
                                                .group = world,
                                                .type = DataType::kF32,
                                                .count = 1,
                                                .out = &value,
                                                .peer = rank - 1}));
  }
  if (rank < last) {
    RETURN_IF_ERROR(RunOperation(communicator, {.kind = OpKind::kSend,
                                                .group = world,
                                                .type = DataType::kF32,
                                                .count = 1,
                                                .in = &value,
                                                .peer = rank + 1}));
  }
  if (value != 7) return Differs(absl::StrCat("rank ", rank, " has ", value));
  if (rank > 0) return absl::OkStatus();
  for (const OpKind kind : {OpKind::kSend, OpKind::kBarrier}) {
    const absl::Status status =
        RunOperation(communicator, {.kind = kind, .group = world, .count = 0, .peer = last});
    if (status.code() != absl::StatusCode::kFailedPrecondition ||
        !absl::StrContains(status.message(), "rank 0 was not given the address of rank 2")) {
      return Differs(status.ToString());
    }
  }
  return absl::OkStatus();
}

TEST(ProcessEndpointTest, RanksThatExchangeNothing_NeedNotKnowEachOther_AndAreNamedWhereTheyDo) {
  for (const bool shared_memory : {true, false}) {
    const auto results =
        RunInProcesses({.shared_memory = shared_memory}, 3, PassAlongARow,
                       {.knows = [](int rank, int other) { return std::abs(rank - other) == 1; }});
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ProcessEndpointTest, Create_WithUnknownTransport_IsUnavailableAndNamesIt) {
  const auto endpoint = ProcessEndpoint::Create({.transports = "pigeon"});
  ASSERT_FALSE(endpoint.ok());
  EXPECT_TRUE(absl::StrContains(endpoint.status().message(), "pigeon")) << endpoint.status();
}

TEST(ProcessEndpointTest, Create_LeavesCrashSignalsAlone) {
  struct sigaction before = {}, after = {};
  const auto endpoint = ProcessEndpoint::Create({.transports = "self"});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  sigaction(SIGSEGV, nullptr, &before);
  const auto second = ProcessEndpoint::Create({.transports = "self"});
  sigaction(SIGSEGV, nullptr, &after);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_EQ(after.sa_handler, SIG_DFL);
#endif
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace strata::collectives
