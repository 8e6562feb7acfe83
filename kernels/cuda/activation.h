// SwiGLU on CUDA devices: the gate of kernels/activation.h with SiLU. T is float or BFloat16;
// pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_ACTIVATION_H_
#define STRATA_KERNELS_CUDA_ACTIVATION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// gate_up[N, 2F], gate in the first F columns -> h[N, F] = silu(gate) * up.
template <typename T>
absl::Status SwigluForward(cudaStream_t stream, int64_t rows, int64_t ffn, const T* gate_up, T* h);

// dh[N, F], gate_up[N, 2F] -> dgate_up[N, 2F], which may be gate_up.
template <typename T>
absl::Status SwigluBackward(cudaStream_t stream, int64_t rows, int64_t ffn, const T* dh,
                            const T* gate_up, T* dgate_up);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ACTIVATION_H_
