// Quantised weights as numbers on CUDA devices (kernels/nf4.h, kernels/int8.h). Pointers are to
// what the device reaches; work is queued on the stream. T: float, BFloat16, Float16.
#ifndef STRATA_KERNELS_CUDA_DEQUANTISE_H_
#define STRATA_KERNELS_CUDA_DEQUANTISE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// The first `count` weights of NF4 units that follow each other; with scales in f32, or quantised
// themselves. Units begin at a multiple of 4 bytes.
template <typename T>
absl::Status DequantiseNf4(cudaStream_t stream, const std::byte* units, bool f32_scales,
                           int64_t count, T* weights);

// weights[R, C] = codes[R, C] · scales[R].
template <typename T>
absl::Status DequantiseInt8(cudaStream_t stream, const int8_t* codes, const float* scales,
                            int64_t rows, int64_t columns, T* weights);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_DEQUANTISE_H_
