// Whether a machine has room for a job's ranks: memory, and disk for the next checkpoint.
#ifndef STRATA_WORKER_AGENT_LOGIC_ROOM_H_
#define STRATA_WORKER_AGENT_LOGIC_ROOM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// What new processes can have now, and what there is in all.
struct MachineMemory {
  int64_t available_bytes = 0;
  int64_t total_bytes = 0;
};

// Nothing: not known.
struct MachineRoom {
  std::optional<int64_t> disk_bytes;  // that may still be written where the checkpoints go
  std::optional<MachineMemory> memory;
};

// ResourceExhausted, with the arithmetic, when a checkpoint of the plan takes more than
// `free_bytes`. The older ones stay until it is committed.
absl::Status CheckRoom(const v1::JobPlan& plan, const std::string& directory, int64_t free_bytes);

// ResourceExhausted, with the arithmetic, when the predicted bytes of these ranks' host tier, and
// of ranks on the CPU (`device`, as a job asks for it) also their device tier, exceed
// `memory_bytes`, which are what `whose` says ("this machine has"). Trainers run only what passed
// this.
absl::Status CheckMemory(const v1::JobPlan& plan, const std::vector<int>& ranks,
                         absl::string_view device, int64_t memory_bytes, absl::string_view whose);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_ROOM_H_
