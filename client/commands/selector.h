// `--selector team=nlp,kind!=eval,urgent`, as kubectl's users write it.
#ifndef STRATA_CLIENT_COMMANDS_SELECTOR_H_
#define STRATA_CLIENT_COMMANDS_SELECTOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"

namespace strata::client {

// The same as a filter of the API (AIP-160). InvalidArgument: what is no selector.
absl::StatusOr<std::string> FilterOfSelector(const std::string& selector);

// --selector and --filter, for commands that choose jobs.
std::vector<Flag> FilterFlags();
// What the two of them say together; empty: nothing.
absl::StatusOr<std::string> FilterOf(const Arguments& arguments);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_SELECTOR_H_
