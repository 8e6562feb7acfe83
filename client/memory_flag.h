// --memory of commands that compute without a job file.
#ifndef STRATA_CLIENT_MEMORY_FLAG_H_
#define STRATA_CLIENT_MEMORY_FLAG_H_

#include "absl/status/status.h"
#include "client/command_line/command.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

Flag MemoryFlag();
// Sets the request's memory where the flag is given. InvalidArgument: what is wrong with its text.
absl::Status SetMemory(const Arguments& arguments, strata::v1::StandaloneRequest& request);

}  // namespace strata::client

#endif  // STRATA_CLIENT_MEMORY_FLAG_H_
