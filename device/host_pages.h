// Anonymous pages of host memory.
#ifndef STRATA_DEVICE_HOST_PAGES_H_
#define STRATA_DEVICE_HOST_PAGES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::device {

inline constexpr int64_t kPageBytes = 4096;

// Addresses without memory behind them; `bytes` > 0, whole pages. ResourceExhausted, with the size.
absl::StatusOr<std::byte*> ReservePages(int64_t bytes);
// Makes every page present and zero, so that what the operating system counts is the size. Huge
// pages are used inside where the system gives them. ResourceExhausted, with the size: the system
// has no such room (a memory limit of the container ends the process instead, as the system
// decides).
absl::Status CommitPages(std::byte* data, int64_t bytes);
void ReleasePages(std::byte* data, int64_t bytes);

}  // namespace strata::device

#endif  // STRATA_DEVICE_HOST_PAGES_H_
