// The restart of one job on very many nodes.
#ifndef STRATA_TESTS_BENCH_LARGE_JOB_H_
#define STRATA_TESTS_BENCH_LARGE_JOB_H_

#include <cstdint>
#include <string>

namespace strata::bench {

struct LargeJob {
  std::string controller;  // the program
  std::string directory;   // its, fresh
  int nodes = 1;
  int devices = 8;  // of each, all of them ranks of the job
};

// One job on all devices, of which one rank is killed.
struct Restart {
  bool done = false;
  double start_seconds = 0, start_processor_seconds = 0;  // of the first start
  double seconds = 0, processor_seconds = 0;              // of the restart
  int64_t start_bytes = 0;                                // of one node's request to start
};
// Against simulated agents, with a controller of its own.
Restart RestartLargeJob(const LargeJob& large);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_LARGE_JOB_H_
