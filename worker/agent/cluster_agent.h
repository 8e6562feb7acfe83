// strata-worker --controller: one node of a cluster.
#ifndef STRATA_WORKER_AGENT_CLUSTER_AGENT_H_
#define STRATA_WORKER_AGENT_CLUSTER_AGENT_H_

#include <map>
#include <string>

#include "common/clock.h"

namespace strata::worker {

struct ClusterAgentOptions {
  std::string controller;  // HOST:PORT
  std::string node;        // its name
  std::string directory;
  int devices = 1;
  int threads_per_device = 1;
  std::map<std::string, std::string> locality;  // level -> value
};

// Serves until SIGTERM or SIGINT, which end its trainers; returns the exit status. Blocks these
// signals. 1: the directory cannot be used, or the controller wants another agent in its place
// (then the trainers live on for their lease).
int RunClusterAgent(const ClusterAgentOptions& options, const common::Clock& clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_AGENT_H_
