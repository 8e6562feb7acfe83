#include "collectives/loopback.h"

#include <thread>

#include "collectives/conformance.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

std::vector<absl::Status> RunOnLinks(int size, const RankBody& body, const LinkThrottle& throttle) {
  const auto world = LoopbackWorld(size, /*max_operations=*/64, throttle);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(*world[rank]);
      if (results[rank].ok()) return;
      for (int other = 0; other < size; ++other) {
        if (other != rank) world[other]->Cancel(absl::AbortedError("another rank failed"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<absl::Status> RunOnThreads(int size, const RankBody& body) {
  return RunOnLinks(size, body, {});
}

std::vector<absl::Status> RunOnSlowLinks(int size, const RankBody& body) {
  return RunOnLinks(size, body, {.bytes_per_second = 4e9, .latency_seconds = 20e-6});
}

TEST(LinkThrottle, MessagesOfOneRank_LeaveOneAfterAnotherAndArriveALatencyLater) {
  constexpr LinkThrottle kLink{.bytes_per_second = 1e6, .latency_seconds = 0.02};
  constexpr int64_t kBytes = 20'000;  // 20 ms each
  double seconds = 0;
  const auto results = RunOnLinks(
      2,
      [&](Communicator& communicator) -> absl::Status {
        ASSIGN_OR_RETURN(const GroupId group, WorldGroup(communicator));
        const bool sends = communicator.rank() == 0;
        std::vector<char> bytes(2 * kBytes);
        const double begin = common::MonotonicClock().Now();
        std::vector<OperationId> ids;
        for (uint32_t i = 0; i < 2; ++i) {
          char* const at = bytes.data() + i * kBytes;
          ASSIGN_OR_RETURN(ids.emplace_back(),
                           communicator.Post({.kind = sends ? OpKind::kSend : OpKind::kReceive,
                                              .group = group,
                                              .count = kBytes,
                                              .in = sends ? at : nullptr,
                                              .out = sends ? nullptr : at,
                                              .peer = sends ? 1 : 0,
                                              .tag = i}));
        }
        RETURN_IF_ERROR(Finish(communicator, ids));
        if (!sends) seconds = common::MonotonicClock().Now() - begin;
        return absl::OkStatus();
      },
      kLink);
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(seconds, 0.06 - 0.002);  // no earlier; how much later is the machine's affair
}

INSTANTIATE_TEST_SUITE_P(SlowLoopback, ConformanceTest,
                         testing::Values(Backend{"SlowLinks", RunOnSlowLinks, {2, 3}}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Loopback, ConformanceTest,
                         testing::Values(Backend{"Threads", RunOnThreads, {1, 2, 3, 4, 5, 8}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::collectives
