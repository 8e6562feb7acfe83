// Lists of all nodes, and what questions do to heartbeats and small calls.
#ifndef STRATA_TESTS_BENCH_NODE_LISTS_H_
#define STRATA_TESTS_BENCH_NODE_LISTS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "proto/strata/v1/cluster.grpc.pb.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/simulated_agents.h"

namespace strata::bench {

// Everything there is, as a client would ask for it.
struct Question {
  int nodes = 0;
  int pages = 0;
  size_t longest_bytes = 0;
  double seconds = 0;
};
Question AskNodes(v1::ClusterService::Stub& stub);
Question AskTopology(v1::ClusterService::Stub& stub);

// How long heartbeats and small calls that go through the writer take meanwhile, each sent when the
// one before is answered.
struct Waits {
  int answers = 0;                        // to questions
  std::vector<double> heartbeats, calls;  // seconds
};
// While one client asks without a pause, until it is not answered; null: nobody asks.
Waits WaitBeside(const ControllerProcess& controller, SimulatedAgents& agents, double seconds,
                 const std::function<bool()>& ask);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_NODE_LISTS_H_
