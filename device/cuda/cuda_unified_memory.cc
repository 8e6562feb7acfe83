#include "device/cuda/cuda_unified_memory.h"

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/cuda_stream.h"

namespace strata::device {
namespace {

// A block of the driver's: what lies in one moves together when nothing is asked for.
constexpr int64_t kBlockBytes = int64_t{2} << 20;

constexpr cudaMemLocation kHost = {cudaMemLocationTypeHost, 0};

absl::StatusOr<bool> Has(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  RETURN_IF_ERROR(
      CudaStatus("asking what the device can", cudaDeviceGetAttribute(&value, attribute, ordinal)));
  return value != 0;
}

}  // namespace

absl::Status CudaUnifiedMemory::CheckDevice() const {
  ASSIGN_OR_RETURN(const bool concurrent, Has(cudaDevAttrConcurrentManagedAccess, ordinal_));
  if (concurrent) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("CUDA device ", ordinal_,
                   " has no unified memory that the host may use while it works "
                   "(concurrentManagedAccess is 0: the driver, a virtual machine or the device "
                   "lacks page faults); place these bytes on host instead"));
}

// Where the device walks the host's page tables (GH200, GB10) it may touch a page on the host
// without moving it: then a fault is not even possible.
absl::Status CudaUnifiedMemory::Advise(const std::byte* data, int64_t bytes) const {
  RETURN_IF_ERROR(CudaStatus("advising that unified memory is at home on the host",
                             cudaMemAdvise(data, bytes, cudaMemAdviseSetPreferredLocation, kHost)));
  ASSIGN_OR_RETURN(const bool coherent,
                   Has(cudaDevAttrPageableMemoryAccessUsesHostPageTables, ordinal_));
  if (!coherent) return absl::OkStatus();
  return CudaStatus("advising that the device uses unified memory",
                    cudaMemAdvise(data, bytes, cudaMemAdviseSetAccessedBy,
                                  {cudaMemLocationTypeDevice, ordinal_}));
}

absl::StatusOr<std::byte*> CudaUnifiedMemory::Reserve(int64_t bytes) {
  RETURN_IF_ERROR(CheckDevice());
  void* memory = nullptr;
  RETURN_IF_ERROR(CudaStatus(
      absl::StrCat("unified memory of ", bytes, " bytes (", common::FormatBytes(bytes), ")"),
      cudaMallocManaged(&memory, bytes + kBlockBytes, cudaMemAttachGlobal)));
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory));
  auto* const data = reinterpret_cast<std::byte*>(common::RoundUp(address, kBlockBytes));
  allocations_[data] = memory;
  const absl::Status status = Advise(data, bytes);
  if (status.ok()) return data;
  Release(data);
  return status;
}

void CudaUnifiedMemory::Release(std::byte* data) {
  const auto found = allocations_.find(data);
  cudaFree(found->second);
  allocations_.erase(found);
}

absl::Status CudaUnifiedMemory::Prefetch(QueueStream& stream, const std::byte* data, int64_t bytes,
                                         Memory to) {
  const cudaMemLocation place =
      to == Memory::kHost ? kHost : cudaMemLocation{cudaMemLocationTypeDevice, ordinal_};
  const cudaError_t error =
      cudaMemPrefetchAsync(data, bytes, place, 0, static_cast<CudaStream&>(stream).handle());
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(absl::StrCat("a prefetch of ", bytes, " bytes"), error);
}

}  // namespace strata::device
