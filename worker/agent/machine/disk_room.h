// How much room a disk has.
#ifndef STRATA_WORKER_AGENT_MACHINE_DISK_ROOM_H_
#define STRATA_WORKER_AGENT_MACHINE_DISK_ROOM_H_

#include <cstdint>
#include <optional>
#include <string>

namespace strata::worker {

// What an ordinary user may still write below a folder that is there; nothing: not known.
std::optional<int64_t> FreeBytes(const std::string& directory);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_DISK_ROOM_H_
