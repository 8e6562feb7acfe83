// Errors of the CUDA runtime as statuses: CUDA's name of the error, what was asked for, and what to
// do about it.
#ifndef STRATA_DEVICE_CUDA_CUDA_STATUS_H_
#define STRATA_DEVICE_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata::device {

// "a copy of 64 bytes: cudaErrorLaunchFailure (unspecified launch failure); …". OK for cudaSuccess.
absl::Status CudaStatus(absl::string_view what, cudaError_t error);

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_CUDA_STATUS_H_
