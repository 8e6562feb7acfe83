// What the operating system counts as this process's memory.
#ifndef STRATA_MEMORY_PROCESS_MEMORY_H_
#define STRATA_MEMORY_PROCESS_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::memory {

struct ProcessMemory {
  int64_t resident_bytes = 0;    // VmRSS
  int64_t high_water_bytes = 0;  // VmHWM: the most that was resident since the start or the reset
};

// From /proc/self/status. The kernel's per-thread counters make both inexact by some hundred KiB.
// Internal: the file is missing or reads differently.
absl::StatusOr<ProcessMemory> ReadProcessMemory();

// Sets the high-water mark to what is resident now. PermissionDenied or Unavailable: the kernel or
// the container does not allow it; the mark then still counts from the process's start.
absl::Status ResetHighWater();

}  // namespace strata::memory

#endif  // STRATA_MEMORY_PROCESS_MEMORY_H_
