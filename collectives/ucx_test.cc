#include <signal.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/conformance.h"
#include "collectives/process_world.h"
#include "collectives/ucx_communicator.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// A test that hangs ends with the process that hangs, not only with Bazel's patience.
constexpr unsigned kMostSeconds = 120;

Backend UcxBackend(const std::string& name, const std::string& transports) {
  return {name,
          [transports](int size, const RankBody& body) {
            return RunInProcesses({.transports = transports}, size, body, kMostSeconds);
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
    const auto communicator = UcxEndpoint::Connect(*std::move(endpoint), 0, lists[kind],
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

TEST(UcxEndpointTest, RanksThatExchangeNothing_NeedNotKnowEachOther_AndAreNamedWhereTheyDo) {
  for (const char* transports : {"sm,tcp,self", "tcp,self"}) {
    const auto results =
        RunInProcesses({.transports = transports}, 3, PassAlongARow, kMostSeconds, nullptr,
                       [](int rank, int other) { return std::abs(rank - other) == 1; });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
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
