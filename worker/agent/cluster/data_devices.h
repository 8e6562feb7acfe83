// Which network interfaces the ranks of a node meet on.
#ifndef STRATA_WORKER_AGENT_CLUSTER_DATA_DEVICES_H_
#define STRATA_WORKER_AGENT_CLUSTER_DATA_DEVICES_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// The interface ("eth0") from which packets to `address`, HOST:PORT, leave this machine. Nothing is
// sent. NotFound: the host is not known, or there is no way to it.
absl::StatusOr<std::string> InterfaceTo(const std::string& address);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_DATA_DEVICES_H_
