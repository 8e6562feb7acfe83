// How much memory this machine has.
#ifndef STRATA_WORKER_AGENT_MACHINE_MACHINE_MEMORY_H_
#define STRATA_WORKER_AGENT_MACHINE_MACHINE_MEMORY_H_

#include <optional>
#include <string>

#include "worker/agent/logic/room.h"

namespace strata::worker {

// From the text of /proc/meminfo; nothing when it is no such text.
std::optional<MachineMemory> ParseMemoryInfo(const std::string& text);
// The machine's, or less where this process's control group has less; nothing: not known.
std::optional<MachineMemory> ReadMachineMemory();

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_MACHINE_MEMORY_H_
