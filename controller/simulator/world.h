// The whole simulated world: the controller, the nodes' agents, what trains on them, what breaks.
#ifndef STRATA_CONTROLLER_SIMULATOR_WORLD_H_
#define STRATA_CONTROLLER_SIMULATOR_WORLD_H_

#include "common/random.h"
#include "controller/simulator/controller_host.h"
#include "controller/simulator/events.h"
#include "controller/simulator/faults.h"
#include "controller/simulator/fleet.h"
#include "controller/simulator/invariants.h"
#include "controller/simulator/simulator.h"
#include "controller/simulator/statistics.h"
#include "controller/simulator/training.h"

namespace strata::simulator {

struct World {
  explicit World(const Options& asked);

  // Until the end, or the first violation.
  void Run(const std::function<void(double)>& on_progress);

  const Options& options;
  Events events;
  common::Random failures, latencies, operators;
  ControllerHost host;
  Invariants invariants;
  Statistics statistics;
  Training training;
  Fleet fleet;
  Faults faults;

 private:
  void Submit(JobRun& run);
  void OnChanged(const v1::JobRecord& job);
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_WORLD_H_
