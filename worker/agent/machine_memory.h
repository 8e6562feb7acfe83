// Whether a plan's ranks fit into this machine's memory.
#ifndef STRATA_WORKER_AGENT_MACHINE_MEMORY_H_
#define STRATA_WORKER_AGENT_MACHINE_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// MemTotal of /proc/meminfo in bytes; 0 when it cannot be read.
int64_t MachineMemoryBytes();

// ResourceExhausted, with the arithmetic, when `ranks` times the predicted bytes of the host tier
// exceed `machine_bytes` (0: unknown, anything fits). Trainers run only what passed this.
absl::Status CheckMemory(const v1::JobPlan& plan, int ranks, int64_t machine_bytes);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_MEMORY_H_
