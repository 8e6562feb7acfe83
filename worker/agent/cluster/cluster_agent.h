// strata-worker --controller: one node of a cluster.
#ifndef STRATA_WORKER_AGENT_CLUSTER_CLUSTER_AGENT_H_
#define STRATA_WORKER_AGENT_CLUSTER_CLUSTER_AGENT_H_

#include <map>
#include <string>
#include <vector>

#include "common/clock.h"
#include "security/tls_files.h"
#include "topology/nvml/nvml.h"
#include "worker/agent/machine/job_user.h"

namespace strata::worker {

// What SIGTERM and SIGINT mean. A second one always hands over.
enum class OnSigterm {
  kHandOver,  // the trainers live on, for the agent that is started next
  kDrain,     // the controller is asked to empty the node; the agent ends when it holds nothing
};

// What a node's devices are.
enum class DeviceChoice {
  kCpu,
  kGpu,   // its GPUs, all of them
  kAuto,  // its GPUs where there is an NVIDIA driver, else the CPU as one device
};

struct ClusterAgentOptions {
  std::string controller;  // HOST:PORT or unix:PATH
  security::TlsFiles tls;  // of connections to HOST:PORT, when it is enabled
  // As EnrolmentOptions'; with it, or once it has enrolled, the agent's certificate is in its
  // directory, and renewed by itself. Not with `tls`.
  std::string join;
  std::string node;  // its name
  std::string directory;
  DeviceChoice choice = DeviceChoice::kCpu;
  std::string nvml = topology::kNvmlLibrary;    // as dlopen takes it
  int devices = 1;                              // of the CPU
  int threads_per_device = 0;                   // 0: an equal share of this machine's processors
  std::map<std::string, std::string> locality;  // level -> value
  OnSigterm on_sigterm = OnSigterm::kHandOver;
  double drain_seconds = 3600;  // then what is left is ended
  // Network interfaces of its ranks' data connections, as UCX_NET_DEVICES; empty: that variable's,
  // or the interface through which the controller is reached.
  std::string data_devices;
  RunAs run_as = RunAs::kAuto;               // as whom jobs run
  std::vector<std::string> unit_properties;  // NAME=VALUE of systemd, for each rank of another user
  bool rejoin = false;  // may go over to another cluster while it holds nothing
};

// Serves until SIGTERM or SIGINT (OnSigterm); returns the exit status. Blocks these signals. 1: the
// directory cannot be used, or the controller wants another agent in its place. Trainers that it
// leaves behind live on for their lease.
//
// Without a controller its trainers train on, for ever unless the policy limits it
// (orphan_seconds): step records go to the job's folder as ever. A commit waits for the controller,
// and a rank has at most two checkpoints on their way: so a job stands still at its third one until
// the controller is back, and has lost nothing. An agent that is started anew meanwhile publishes
// nothing before a controller has welcomed it and named the epoch: until then records wait with
// their ranks, which wait in turn when they hold 4 MiB of them.
int RunClusterAgent(const ClusterAgentOptions& options, const common::Clock& clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_CLUSTER_AGENT_H_
