// Lists of all nodes, and what they do to others.
#ifndef STRATA_TESTS_BENCH_NODE_LISTS_H_
#define STRATA_TESTS_BENCH_NODE_LISTS_H_

#include <cstddef>
#include <vector>

#include "tests/bench/controller_process.h"

namespace strata::bench {

// Everything there is, as a client would ask for it.
struct Question {
  int nodes = 0;
  int pages = 0;
  size_t longest_bytes = 0;
  double seconds = 0;
};
Question AskNodes(const ControllerProcess& controller);
Question AskTopology(const ControllerProcess& controller);

// Heartbeats while one client asks for all nodes without a pause. A small call's time is a
// heartbeat's delay: both wait for the same threads.
struct Lists {
  int lists = 0;
  std::vector<double> idle_seconds, busy_seconds;  // of small calls: without and with lists
};
Lists AskBesideHeartbeats(const ControllerProcess& controller, int nodes, double seconds);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_NODE_LISTS_H_
