// What the commands that change jobs by name share.
#ifndef STRATA_CLIENT_COMMANDS_CHANGED_JOBS_H_
#define STRATA_CLIENT_COMMANDS_CHANGED_JOBS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/api/api_client.h"
#include "client/terminal/terminal.h"
#include "client/views/structured.h"

namespace strata::client {

// As `-o` wants them: one of one name is itself, those of several are one list.
void ShowEach(const std::vector<Json>& each, bool list, const std::string& output,
              Terminal& terminal);

// Changes one job after another, tells of each, and shows what was changed. Ends with the first
// that fails: the exit code of that.
int ChangeJobs(const std::vector<std::string>& names, const std::string& output, Terminal& terminal,
               const std::function<absl::StatusOr<v1::Job>(const std::string& resource)>& change,
               const std::function<std::string(const v1::Job&)>& told);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_CHANGED_JOBS_H_
