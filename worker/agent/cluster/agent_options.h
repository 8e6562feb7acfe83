// The command line of strata-worker.
#ifndef STRATA_WORKER_AGENT_CLUSTER_AGENT_OPTIONS_H_
#define STRATA_WORKER_AGENT_CLUSTER_AGENT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/cluster/cluster_agent.h"

namespace strata::worker {

inline constexpr char kClusterUsage[] =
    "  --controller HOST:PORT | unix:PATH  serve a cluster's controller until SIGTERM, with\n"
    "      --node NAME                 this node's name in the cluster\n"
    "      --dir DIR                   for what the agent keeps; one agent at a time\n"
    "      [--devices N|gpu|auto]      ranks at the same time, on the CPU (1); or one on each GPU "
    "of\n"
    "                                  this machine; or (auto) on GPUs if it has an NVIDIA driver\n"
    "      [--nvml LIBRARY]            NVIDIA's management library (libnvidia-ml.so.1)\n"
    "      [--threads-per-device T]    (this machine's processors / N)\n"
    "      [--locality LEVEL=VALUE,…]  where the node stands, outermost level first\n"
    "      [--on-sigterm handover|drain]  its trainers live on for the next agent (handover), or "
    "the\n"
    "                                  node is emptied first\n"
    "      [--drain-seconds S]         then what is left is ended (3600)\n"
    "      [--tls-certificate F --tls-key F --tls-authority F]  PEM files: speak TLS, as\n"
    "                                  spiffe://CLUSTER/node/NAME, to its controller\n"
    "      [--join ID.SECRET@sha256:DIGEST | --join @/FILE]  a join token (strata token create), "
    "or\n"
    "                                  the file that holds it: the agent makes a key, gets a\n"
    "                                  certificate for it, and renews that from then on\n"
    "      [--data-devices NAMES]      interfaces of its ranks' data connections (that through "
    "which\n"
    "                                  the controller is reached)\n"
    "      [--run-as user|daemon|auto] jobs run as their owners, as this process's user, or (auto) "
    "as\n"
    "                                  their owners where that is root and systemd runs\n"
    "      [--unit-property NAME=VALUE]  of systemd, for each rank of another user; repeatable\n"
    "      [--rejoin]                  go over to another cluster, when it holds nothing\n";

// Arguments after the program's name. InvalidArgument: what is wrong.
absl::StatusOr<ClusterAgentOptions> ParseClusterOptions(const std::vector<std::string>& arguments);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_AGENT_OPTIONS_H_
