// A cluster on virtual time: the real controller's logic and scheduler, simulated agents, jobs and
// failures. The same options give the same report.
#ifndef STRATA_CONTROLLER_SIMULATOR_SIMULATOR_H_
#define STRATA_CONTROLLER_SIMULATOR_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "controller/simulator/failures.h"
#include "controller/simulator/latencies.h"
#include "controller/simulator/planted_bug.h"
#include "controller/simulator/report.h"
#include "controller/simulator/workload.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/policy.pb.h"
#include "topology/cluster.h"

namespace strata::simulator {

struct Options {
  topology::Description cluster;
  double days = 1;
  uint64_t seed = 1;
  std::vector<SimJob> jobs;
  std::vector<Cause> causes = PublishedCauses();
  double failure_rate = 1;  // times the published one; 0: nothing fails
  Latencies latencies = {};
  double controller_ends_per_day = 0;
  // In force from the beginning; its buffer's level is one of the cluster's.
  v1::Policy policy = {};
  // Every agent tells what its ranks have written; otherwise rank 0's alone asks for the commit,
  // which saves all but one of a checkpoint's messages.
  bool all_fragments = true;
  // Between ticks that nothing calls for, while a job waits.
  double waiting_tick_seconds = 60;
  PlantedBug bug = PlantedBug::kNone;
  // Are told what a node (NAME) says to the controller, and what it hears, if they are there.
  std::function<void(const std::string&, const v1::AgentMessage&)> on_said = nullptr;
  std::function<void(const std::string&, const v1::ControllerMessage&)> on_heard = nullptr;
};

// A cluster of equal parts; the last ones may be smaller.
struct Regular {
  int nodes = 64;
  int devices = 8;  // per node
  std::string device = "h100";
  int nodes_per_zone = 384;
  int nodes_per_rack = 2;    // that share a switch; at least a domain's
  int nodes_per_domain = 1;  // of NVLink
};
topology::Description RegularCluster(const Regular& shape);

// Calls `on_progress` now and then with the part that is done, in [0, 1].
Report Simulate(const Options& options, const std::function<void(double)>& on_progress = nullptr);

// A small cluster in great trouble: 32 to 64 nodes of two devices for two days, tensor groups that
// span nodes, failures a hundred times as frequent, jobs of all priorities, drains, cancellations
// and controller restarts; all from the seed.
Options TroubledCluster(uint64_t seed);

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_SIMULATOR_H_
