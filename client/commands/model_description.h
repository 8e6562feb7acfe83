// `strata describe model JOB.yaml`: the model of a job file, without a cluster.
#ifndef STRATA_CLIENT_COMMANDS_MODEL_DESCRIPTION_H_
#define STRATA_CLIENT_COMMANDS_MODEL_DESCRIPTION_H_

#include <string>

#include "client/terminal/terminal.h"

namespace strata::client {

// Prints sizes, parameters and what recompute.save may name, with its bytes per token and layer.
// `output`: table, json, yaml or name. Returns the exit code.
int DescribeModel(const std::string& path, const std::string& output, Terminal& terminal);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_MODEL_DESCRIPTION_H_
