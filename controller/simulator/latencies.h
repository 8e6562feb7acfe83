// How long things take in the simulated cluster: assumptions, in one place.
#ifndef STRATA_CONTROLLER_SIMULATOR_LATENCIES_H_
#define STRATA_CONTROLLER_SIMULATOR_LATENCIES_H_

#include <algorithm>
#include <string>

namespace strata::simulator {

// Seconds. Of ranks that do the same at the same time only the slowest counts.
struct Latencies {
  double message = 0.002;      // one way between controller and agent, the commit to disk included
  double start = 15;           // PREPARE until all ranks have compiled and have addresses
  double load = 45;            // START until all ranks have joined and loaded
  double jitter = 0.2;         // of the two above: a factor between 1 − jitter and 1 + jitter
  double stop = 1;             // until told ranks are gone
  double word = 0.2;           // from a trainer's death until its agent has reaped it and says so
  double manifest = 0.1;       // rank 0's agent writes one
  double keepalive = 15;       // until a connection without an answer counts as broken
  double orphan = 600;         // agents that reach nobody end their trainers
  double reconnect = 0.5;      // agents try again after a controller's restart
  double controller_down = 5;  // a controller's restart
  double notice = 600;         // between an operator's drain and the node's end
};

// The verdict on a rank that does not move: max(3 s, five times the longest instruction), which is
// taken as a tenth of a step.
inline double HangVerdict(double seconds_per_step) { return std::max(3.0, 0.5 * seconds_per_step); }

std::string ExplainLatencies(const Latencies& latencies = {});

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_LATENCIES_H_
