// Activations of the feed-forward part on CUDA devices, alone and as gates: what
// kernels/activation.h computes. T is float, BFloat16 or Float16; pointers are to device memory;
// work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_ACTIVATION_H_
#define STRATA_KERNELS_CUDA_ACTIVATION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// As kernels/activation.h has them.
enum class Function { kSilu, kGeluTanh, kGelu };

// h = f(x); h may be x.
template <typename T>
absl::Status ActivationForward(cudaStream_t stream, int64_t count, Function function, const T* x,
                               T* h);

// dx = dh f'(x); dx may be dh or x.
template <typename T>
absl::Status ActivationBackward(cudaStream_t stream, int64_t count, Function function, const T* dh,
                                const T* x, T* dx);

// gate_up[N, 2F], gate in the first F columns -> h[N, F] = f(gate) * up.
template <typename T>
absl::Status GatedForward(cudaStream_t stream, int64_t rows, int64_t ffn, Function function,
                          const T* gate_up, T* h);

// dh[N, F], gate_up[N, 2F] -> dgate_up[N, 2F], which may be gate_up.
template <typename T>
absl::Status GatedBackward(cudaStream_t stream, int64_t rows, int64_t ffn, Function function,
                           const T* dh, const T* gate_up, T* dgate_up);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ACTIVATION_H_
