// From argv to Arguments, with messages that say what was meant.
#ifndef STRATA_CLIENT_COMMAND_LINE_PARSER_H_
#define STRATA_CLIENT_COMMAND_LINE_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/command_line/command.h"

namespace strata::client {

// Of a flag: `90m`, `1h30m`, or seconds: `90`; at most 100 years. InvalidArgument says what is
// wrong, without the text.
absl::StatusOr<absl::Duration> ParseTime(const std::string& text);

// Flags may stand anywhere: `--flag VALUE`, `--flag=VALUE`, `-o VALUE`, `-oVALUE`; after `--`
// everything is positional. InvalidArgument: all problems, one line each. With --help nothing else
// is checked.
absl::StatusOr<Arguments> ParseArguments(const Command& command,
                                         const std::vector<std::string>& typed);

// The command of this name. InvalidArgument with a suggestion when there is none.
absl::StatusOr<const Command*> FindCommand(const std::vector<Command>& commands,
                                           const std::string& name);

std::string UsageOf(const Command& command);  // one line
std::string HelpOf(const Command& command);
std::string HelpOf(const std::vector<Command>& commands);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMAND_LINE_PARSER_H_
