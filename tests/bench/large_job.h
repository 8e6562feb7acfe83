// The restart of one job on very many nodes.
#ifndef STRATA_TESTS_BENCH_LARGE_JOB_H_
#define STRATA_TESTS_BENCH_LARGE_JOB_H_

#include <cstdint>
#include <string>

#include "tests/bench/bench_certificates.h"

namespace strata::bench {

struct LargeJob {
  std::string controller;  // the program
  std::string directory;   // its, fresh
  int nodes = 1;
  int devices = 8;                            // of each, all of them ranks of the job
  BenchCertificates* certificates = nullptr;  // null: without TLS
};

// One job on all devices, of which one rank is killed. Its ranks say what those of tensor 8 ×
// pipeline 16 × data would (as many as divide them).
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
