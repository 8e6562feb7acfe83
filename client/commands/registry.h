// All subcommands. Each stands in its own file and is described by a function that returns it.
#ifndef STRATA_CLIENT_COMMANDS_REGISTRY_H_
#define STRATA_CLIENT_COMMANDS_REGISTRY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/command_line/command.h"

namespace strata::client {

Command RunCommand();
Command GenerateCommand();
Command EvalCommand();
Command CalibrateCommand();
Command DoctorCommand();
Command ExportCommand();
Command FitCommand();
Command PlaceCommand();
Command PlanCommand();
Command PlanEvaluateCommand();
Command SimulateCommand();
Command TopologyCommand();
Command TraceCommand();
// data prepare, data show.
std::vector<Command> DataCommands();
// What needs a cluster: submit, apply, get, describe, explain, events, cancel, update, suspend,
// delete, watch, logs, wait, drain, resume, up, down.
std::vector<Command> ClusterCommands();

const std::vector<Command>& AllCommands();

// The whole program after argv[0]: finds the command, parses its flags, runs it. Returns the exit
// code.
int RunCommandLine(const std::vector<std::string>& typed, Terminal& terminal);

// Prints a status that a command failed with, each line in place, and returns its exit code.
int Fail(const absl::Status& status, Terminal& terminal);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_REGISTRY_H_
