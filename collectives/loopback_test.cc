#include "collectives/loopback.h"

#include <thread>

#include "collectives/conformance.h"

namespace strata::collectives {
namespace {

std::vector<absl::Status> RunOnThreads(int size, const RankBody& body) {
  const auto world = LoopbackWorld(size);
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

INSTANTIATE_TEST_SUITE_P(Loopback, ConformanceTest,
                         testing::Values(Backend{"Threads", RunOnThreads, {1, 2, 3, 4, 5, 8}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::collectives
