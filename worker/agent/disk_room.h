// Whether a disk has room for a job's next checkpoint, before its ranks start.
#ifndef STRATA_WORKER_AGENT_DISK_ROOM_H_
#define STRATA_WORKER_AGENT_DISK_ROOM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// What an ordinary user may still write below a folder that is there; nothing: not known.
std::optional<int64_t> FreeBytes(const std::string& directory);

// ResourceExhausted, with the arithmetic, when a checkpoint of the plan takes more than
// `free_bytes`. The older ones stay until it is committed.
absl::Status CheckRoom(const v1::JobPlan& plan, const std::string& directory, int64_t free_bytes);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_DISK_ROOM_H_
