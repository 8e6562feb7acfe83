// Processes by pid and start time, which together name one process until the machine restarts: a
// pid alone may be another's by now.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_PROCESS_ID_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace strata::client {

struct ProcessId {
  pid_t pid = 0;
  uint64_t start = 0;  // clock ticks after boot
  bool operator==(const ProcessId& other) const = default;
};

// The process that has this pid now; nothing when there is none, or only what is left of one that
// has ended.
std::optional<ProcessId> ProcessWithPid(pid_t pid);

bool IsAlive(const ProcessId& process);

// Sends a signal to this process and no other; false when it has ended.
bool SendSignal(const ProcessId& process, int signal);

// A descriptor that polls as readable once the process has ended; -1 when it has already.
int OpenProcess(const ProcessId& process);

// Changes with every start of the machine.
std::string BootId();

// Live processes whose environment has `variable` (NAME=VALUE, whole) and of whose first two
// arguments one is a file name that begins with `name_prefix`; not the caller.
std::vector<ProcessId> ProcessesWith(absl::string_view variable, absl::string_view name_prefix);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_PROCESS_ID_H_
