#include "device/cuda/stream_values.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "device/cuda/cuda_status.h"

namespace strata::device {
namespace {

constexpr unsigned kVersion = 12000;  // since which the calls are as they are used here

absl::StatusOr<void*> Entry(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &result);
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess && function != nullptr) {
    return function;
  }
  return absl::UnimplementedError(
      absl::StrCat("the CUDA driver has no ", name, "; update it to one of CUDA 12 or later"));
}

// The driver's errors have the runtime's numbers.
absl::Status StatusOf(const char* what, CUresult result) {
  return CudaStatus(what, static_cast<cudaError_t>(result));
}

}  // namespace

absl::StatusOr<StreamValues> StreamValues::Find() {
  ASSIGN_OR_RETURN(void* const wait, Entry("cuStreamWaitValue32"));
  ASSIGN_OR_RETURN(void* const write, Entry("cuStreamWriteValue32"));
  return StreamValues(reinterpret_cast<Function>(wait), reinterpret_cast<Function>(write));
}

absl::Status StreamValues::Wait(cudaStream_t stream, const uint32_t* at, uint32_t value) const {
  return StatusOf("a stream's wait for a lane", wait_(stream, reinterpret_cast<CUdeviceptr>(at),
                                                      value, CU_STREAM_WAIT_VALUE_GEQ));
}

absl::Status StreamValues::Write(cudaStream_t stream, uint32_t* at, uint32_t value) const {
  return StatusOf(
      "a stream's count of its actions",
      write_(stream, reinterpret_cast<CUdeviceptr>(at), value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

}  // namespace strata::device
