// What /proc says of a process.
#ifndef STRATA_WORKER_AGENT_PROCESS_STAT_H_
#define STRATA_WORKER_AGENT_PROCESS_STAT_H_

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

// Differs from boot to boot; empty when it cannot be read.
std::string BootId();

// Memory that new processes can have now, and what the machine has in all, in bytes, from the text
// of /proc/meminfo; nothing when it is no such text.
struct MachineMemory {
  int64_t available_bytes = 0;
  int64_t total_bytes = 0;
};
std::optional<MachineMemory> ParseMemoryInfo(const std::string& text);
// The machine's, or less where this process's control group has less.
std::optional<MachineMemory> ReadMachineMemory();

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_PROCESS_STAT_H_
