// CUDA's managed memory, without its faults.
#ifndef STRATA_DEVICE_CUDA_CUDA_UNIFIED_MEMORY_H_
#define STRATA_DEVICE_CUDA_CUDA_UNIFIED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/unified_memory.h"

namespace strata::device {

class CudaUnifiedMemory final : public UnifiedMemory {
 public:
  explicit CudaUnifiedMemory(int ordinal) : ordinal_(ordinal) {}

  // ResourceExhausted: no room.
  absl::StatusOr<std::byte*> Reserve(int64_t bytes) override;
  void Release(std::byte* data) override;
  absl::Status Prefetch(QueueStream& stream, const std::byte* data, int64_t bytes,
                        Memory to) override;

 private:
  absl::Status CheckDevice() const;
  absl::Status Advise(const std::byte* data, int64_t bytes) const;

  const int ordinal_;
  std::map<const std::byte*, void*> allocations_;  // by what Reserve returned
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_CUDA_UNIFIED_MEMORY_H_
