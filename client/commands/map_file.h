// A cluster's map in a file: what all commands that read one understand.
#ifndef STRATA_CLIENT_COMMANDS_MAP_FILE_H_
#define STRATA_CLIENT_COMMANDS_MAP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "topology/cluster.h"

namespace strata::client {

// --format, --device, --devices and --label: how to read it, and what it does not say.
std::vector<Flag> MapFileFlags(const std::string& help_of_devices = "devices per node, likewise");

absl::StatusOr<topology::Cluster> ReadMapFile(const std::string& path, const Arguments& arguments);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_MAP_FILE_H_
