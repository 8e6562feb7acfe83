// cuDNN where the loader finds it: nothing is linked with it.
#ifndef STRATA_KERNELS_CUDA_CUDNN_CUDNN_LIBRARY_H_
#define STRATA_KERNELS_CUDA_CUDNN_CUDNN_LIBRARY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata::kernels::cuda {

inline constexpr char kCudnnFile[] = "libcudnn.so.9";

// A handle of dlopen, which stays open. Errors: NOT_FOUND: there is no library, or it lacks a part.
absl::StatusOr<void*> OpenCudnnLibrary(const std::string& file = kCudnnFile);

// 91900 is 9.19.0. Errors likewise.
absl::StatusOr<int64_t> CudnnVersion(const std::string& file = kCudnnFile);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_CUDNN_LIBRARY_H_
