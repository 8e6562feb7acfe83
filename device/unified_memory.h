// Unified memory: bytes that the host and a device reach at one address, each page being on one of
// them. What a stream brings before it is used does not fault; what is used elsewhere comes by a
// fault, which costs the device tens of microseconds and is nobody's plan.
#ifndef STRATA_DEVICE_UNIFIED_MEMORY_H_
#define STRATA_DEVICE_UNIFIED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/queue_device.h"

namespace strata::device {

class UnifiedMemory {
 public:
  virtual ~UnifiedMemory() = default;

  // `bytes` from a multiple of 2 MiB on, whose pages are to be on the host unless they are asked
  // for. Unimplemented, with the reason: the device has no such memory that both sides may use at a
  // time.
  virtual absl::StatusOr<std::byte*> Reserve(int64_t bytes) = 0;
  // Waits for the device.
  virtual void Release(std::byte* data) = 0;
  // In the stream's order: the pages that the bytes lie on move to the device, or to the host.
  virtual absl::Status Prefetch(QueueStream& stream, const std::byte* data, int64_t bytes,
                                Memory to) = 0;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_UNIFIED_MEMORY_H_
