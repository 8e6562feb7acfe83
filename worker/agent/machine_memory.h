// Whether a plan's ranks fit into this machine's memory.
#ifndef STRATA_WORKER_AGENT_MACHINE_MEMORY_H_
#define STRATA_WORKER_AGENT_MACHINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// What new processes can have now, and what there is in all.
struct MachineMemory {
  int64_t available_bytes = 0;
  int64_t total_bytes = 0;
};
// From the text of /proc/meminfo; nothing when it is no such text.
std::optional<MachineMemory> ParseMemoryInfo(const std::string& text);
// The machine's, or less where this process's control group has less; nothing: not known.
std::optional<MachineMemory> ReadMachineMemory();

// ResourceExhausted, with the arithmetic, when `ranks` times the predicted bytes of the host tier
// exceed `memory_bytes`, which are what `whose` says ("this machine has"). Trainers run only what
// passed this.
absl::Status CheckMemory(const v1::JobPlan& plan, int ranks, int64_t memory_bytes,
                         absl::string_view whose);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_MEMORY_H_
