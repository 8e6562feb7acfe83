#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

template <Mistake kMistake>
__global__ void FindNonFiniteKernel(const __grid_constant__ AdamWTensors list, unsigned* flag) {
  const AdamWTensor& tensor = list.tensors[blockIdx.y];
  bool bad = false;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < tensor.count;
       i += int64_t{gridDim.x} * blockDim.x) {
    bad |= !isfinite(tensor.gradient[i]);
  }
  if (__any_sync(~0u, bad) && threadIdx.x % 32 == 0) {
    if (kMistake == Mistake::kPlainStoreForAtomic) {
      *flag = 1;
    } else {
      atomicOr(flag, 1u);
    }
  }
}

__global__ void AdamWKernel(const __grid_constant__ AdamWTensors list, AdamWScalars s,
                            const unsigned* flag) {
  if (*flag != 0) return;
  const AdamWTensor& tensor = list.tensors[blockIdx.y];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < tensor.count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const float g = tensor.gradient[i];
    const float m = s.beta1 * tensor.m[i] + (1 - s.beta1) * g;
    const float v = s.beta2 * tensor.v[i] + (1 - s.beta2) * g * g;
    tensor.m[i] = m;
    tensor.v[i] = v;
    const float p = tensor.master[i] * (1 - s.rate * s.decay) -
                    s.rate * (m * s.correction1) / (sqrtf(v * s.correction2) + s.epsilon);
    tensor.master[i] = p;
    tensor.parameter[i] = __float2bfloat16(p);
  }
}

__global__ void ScaleKernel(int count, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 2 * x[i] + 1;
}

}  // namespace

void AdamW(cudaStream_t stream, const AdamWTensors& tensors, const AdamWScalars& scalars,
           unsigned* flag, Mistake mistake) {
  const dim3 grid(4, tensors.count);
  if (mistake == Mistake::kPlainStoreForAtomic) {
    FindNonFiniteKernel<Mistake::kPlainStoreForAtomic><<<grid, 128, 0, stream>>>(tensors, flag);
  } else {
    FindNonFiniteKernel<Mistake::kNone><<<grid, 128, 0, stream>>>(tensors, flag);
  }
  AdamWKernel<<<grid, 128, 0, stream>>>(tensors, scalars, flag);
}

void Scale(cudaStream_t stream, int count, const float* x, float* y) {
  ScaleKernel<<<(count + 127) / 128, 128, 0, stream>>>(count, x, y);
}

}  // namespace strata::standin
