// One job on very many nodes: its restart, and explanations of it.
#ifndef STRATA_TESTS_BENCH_LARGE_JOB_H_
#define STRATA_TESTS_BENCH_LARGE_JOB_H_

#include <cstdint>
#include <string>

#include "proto/strata/v1/jobs.pb.h"
#include "tests/bench/bench_certificates.h"
#include "tests/bench/node_lists.h"

namespace strata::bench {

struct LargeJob {
  std::string controller;  // the program
  std::string directory;   // its, fresh
  int nodes = 1;
  int devices = 8;                            // of each, all of them ranks of the job
  bool data_alone = false;                    // see LargeRequest
  BenchCertificates* certificates = nullptr;  // null: without TLS
};

// Tensor 8 × pipeline 16 × data, as far as these divide the devices, or data alone.
v1::CreateJobRequest LargeRequest(int nodes, int devices, bool data_alone = false);

// Such a job, on all devices, of which one rank is killed. Its ranks say what its trainers would.
struct Restart {
  bool done = false;
  int peers = 0;  // of a rank, at most: whose addresses it needs
  double start_seconds = 0, start_processor_seconds = 0;  // of the first start
  double seconds = 0, processor_seconds = 0;              // of the restart
  int64_t start_bytes = 0;                                // of one node's request to start
};
// Against simulated agents, with a controller of its own.
Restart RestartLargeJob(const LargeJob& large);

// Such a job on so many of the nodes is explained without a pause, while it starts; then it is
// cancelled. No answers: it could not be made.
Waits WaitBesideExplains(const ControllerProcess& controller, SimulatedAgents& agents, int nodes,
                         int devices, double seconds);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_LARGE_JOB_H_
