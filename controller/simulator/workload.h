// The jobs of a simulation.
#ifndef STRATA_CONTROLLER_SIMULATOR_WORKLOAD_H_
#define STRATA_CONTROLLER_SIMULATOR_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::simulator {

struct SimJob {
  std::string name;  // NAME
  double submit_seconds = 0;
  int64_t tensor = 1, context = 1, pipeline = 1, data = 1;
  int64_t shard_group = 0;  // data ranks that share one copy; divides data; 0: all of them
  std::string device = "h100";
  int64_t steps = 1;
  double seconds_per_step = 10;
  double checkpoint_interval = 300;  // seconds of useful work; at least one step
  double checkpoint_stall = 2;       // seconds that a checkpoint costs
  int64_t priority = 0;
  std::string project = "default", queue = "default";
  int64_t spares = 0;
  std::optional<double> cancel_seconds;  // after the submission

  int64_t ranks() const { return tensor * context * pipeline * data; }
  // Steps between checkpoints.
  int64_t save_every() const;
};

// As `strata submit` would send it: a model from scratch, whose sizes grow with the ranks.
v1::CreateJobRequest RequestOf(const SimJob& job);

// Jobs that keep a cluster of so many nodes about `load` busy: sizes are powers of two, from one
// node to a quarter of the cluster, each doubling half as frequent (small jobs are many, most
// device time goes to the large ones: Hu et al., "Characterization of Large Language Model
// Development in the Datacenter", NSDI 2024, section 3); durations are log-normal with a mean of
// `mean_hours`, arrivals Poisson; priorities 0 (70 %), 1 (20 %), 2 (10 %).
struct Mix {
  int nodes = 1;
  int devices = 8;      // per node
  int most_tensor = 8;  // tensor degrees: one node's devices, doubled at random up to this
  // In nodes, each half as frequent as the one before; empty: powers of two as above.
  std::vector<int> sizes = {};
  // Whether there are jobs of 2 to 10 tensor groups, too: the scheduler searches their best
  // placement exactly, which takes it milliseconds.
  bool searched = true;
  // Whether some jobs have context groups, and some shard groups smaller than their data degree.
  bool meshes = false;
  std::string device = "h100";
  double days = 1;
  double load = 0.8;
  double mean_hours = 6;
  double checkpoint_interval = 300;
  double checkpoint_stall = 2;
  double cancel_probability = 0;
};
std::vector<SimJob> RandomJobs(const Mix& mix, common::Random& random);

// One job on so many nodes from the first second to beyond the end.
SimJob BigJob(int nodes, int devices, double days, double checkpoint_interval,
              double checkpoint_stall);

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_WORKLOAD_H_
