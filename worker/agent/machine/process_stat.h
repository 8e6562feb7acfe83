// What /proc says of a process.
#ifndef STRATA_WORKER_AGENT_MACHINE_PROCESS_STAT_H_
#define STRATA_WORKER_AGENT_MACHINE_PROCESS_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace strata::worker {

struct ProcessStat {
  char state = '?';         // R S D T t Z X …
  uint64_t start_time = 0;  // clock ticks since boot
};

// From the text of /proc/PID/stat; nothing when it is no such text.
std::optional<ProcessStat> ParseProcessStat(const std::string& text);
// Nothing when there is no such process.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// Whether a thread of the process is in that state; false where it cannot be told.
bool HasThreadInState(pid_t pid, char state);

// Differs from boot to boot; empty when it cannot be read.
std::string BootId();

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_PROCESS_STAT_H_
