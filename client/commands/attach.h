// Following a job in this terminal: what submit --attach and watch share.
#ifndef STRATA_CLIENT_COMMANDS_ATTACH_H_
#define STRATA_CLIENT_COMMANDS_ATTACH_H_

#include <cstdint>
#include <string>

#include "client/api/api_client.h"
#include "client/terminal/terminal.h"

namespace strata::client {

struct AttachOptions {
  int64_t after_step = 0;
  bool lines = false;   // step records and states as JSON lines on stdout
  std::string outcome;  // "json", "yaml", "name": the ended job on stdout
};

// Shows the progress of `job` until it ends and returns its outcome as an exit code. The first
// interrupt detaches: 130, and the job goes on.
int Attach(ApiClient& client, const v1::Job& job, const AttachOptions& options, Terminal& terminal);

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_ATTACH_H_
