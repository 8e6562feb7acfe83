// Flat arrays on CUDA devices: what kernels/elementwise.h computes. T is float, BFloat16 or
// Float16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_ELEMENTWISE_H_
#define STRATA_KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// dst += src.
template <typename T>
absl::Status Add(cudaStream_t stream, int64_t count, const T* src, T* dst);
// dst = src, and dst = 0, of any type.
absl::Status Copy(cudaStream_t stream, int64_t bytes, const void* src, void* dst);
absl::Status Zero(cudaStream_t stream, int64_t bytes, void* dst);
// dst = value.
absl::Status Fill(cudaStream_t stream, int64_t count, float value, float* dst);
// dst *= factor.
template <typename T>
absl::Status Scale(cudaStream_t stream, int64_t count, float factor, T* dst);
// x = cap * tanh(x / cap), of a positive cap.
template <typename T>
absl::Status Softcap(cudaStream_t stream, int64_t count, float cap, T* x);

// *sum += the values, one by one in ascending order: the same bits however they are cut into calls.
absl::Status AddInOrder(cudaStream_t stream, int64_t count, const float* values, double* sum);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ELEMENTWISE_H_
