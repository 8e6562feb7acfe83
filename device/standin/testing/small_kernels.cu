// Each kernel for one thing that the stand-in does or finds.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

__constant__ float constant_table[4] = {1, 2, 4, 8};
__device__ float global_table[4];

template <bool kSync>
__global__ void ExchangeByWarpKernel(int* out) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kSync) __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}

__global__ void WaitForeverKernel(int* flag) {
  while (*static_cast<volatile int*>(flag) == 0) {
  }
}

__global__ void HalfOfTheWarpWaitsKernel(int* out) {
  int value = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) value = __shfl_xor_sync(~0u, value, 1);
  __syncthreads();
  out[threadIdx.x] = value;
}

__global__ void ReadClockKernel(int64_t* out) { *out = clock64(); }

// Warp 0 fills a slot that warp 1 empties; two named barriers of 64 threads pass it on.
__global__ void PassBetweenWarpsKernel(int rounds, int* out) {
  __shared__ int slot[32];
  const int lane = threadIdx.x % 32;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x < 32) {
      if (round > 0) asm volatile("bar.sync 2, 64;" ::: "memory");  // it is empty
      slot[lane] = round * 32 + lane;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");  // it is full
      out[round * 32 + lane] = slot[lane ^ 1];
      if (round + 1 < rounds) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}

__global__ void ReadTableKernel(float* out) {
  out[threadIdx.x] = constant_table[threadIdx.x] + global_table[threadIdx.x];
}

__global__ void WriteSharedDynamicKernel(float* out) {
  extern __shared__ float values[];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

__global__ void ComputeScalarsKernel(int count, const ScalarInput* inputs, ScalarOutput* outputs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const ScalarInput in = inputs[i];
  ScalarOutput out;
  out.sum = in.f + 1.5f;
  out.product = in.f * in.f;
  out.quotient = 3.f / in.f;
  out.fused = fmaf(in.f, in.f, -1.f);
  out.root = sqrtf(fabsf(in.f));
  out.smaller = fminf(in.f, 0.25f);
  out.exponential = expf(in.f);
  out.logarithm = logf(fabsf(in.f));
  out.sine = sinf(in.f * 1e5f);
  out.power = powf(fabsf(in.f), 1.5f);
  out.rounded_down = floorf(in.f * 10);
  out.to_zero = __fadd_rz(in.f, 1e-9f);
  out.d_sum = in.d + in.f;
  out.d_quotient = in.d / 7;
  out.d_root = sqrt(in.d * in.d + 1);
  out.quotient_i = in.i / 7;
  out.remainder_i = in.i % (static_cast<int>(in.u % 100) + 1);
  out.high = __mulhi(in.i, in.i);
  out.population = __popc(in.u);
  out.leading_zeros = __clz(in.i);
  out.first_set = __ffs(in.i);
  out.shifted = in.i >> (in.u & 15);
  out.to_int = __float2int_rn(in.f * 1000);
  out.funnel = static_cast<int>(__funnelshift_l(in.u, in.i, in.u));
  out.permuted = static_cast<int>(__byte_perm(in.u, in.i, 0x2517));
  out.byte_sum = static_cast<signed char>(in.i) + static_cast<int16_t>(in.u);
  out.quotient_u = in.u / 10;
  out.high_u = __umulhi(in.u, in.u);
  out.reversed = __brev(in.u);
  out.wide = static_cast<int64_t>(in.i) * in.i;
  out.product_l = in.l * 3 + in.i;
  out.quotient_l = in.l / (in.i | 1);
  out.high_l = __mul64hi(in.l, in.l);
  out.brain = __float2bfloat16(in.f);
  out.brain_fused = __hfma(out.brain, out.brain, __float2bfloat16(0.1f));
  out.half_bits = __half_as_ushort(__float2half(in.f));
  out.small = __nv_cvt_float_to_fp8(in.f * 100, __NV_SATFINITE, __NV_E4M3);
  outputs[i] = out;
}

__global__ void ComputeWarpKernel(const int* in, WarpOutput* outputs) {
  const int value = in[threadIdx.x];
  WarpOutput out;
  out.down = __shfl_down_sync(~0u, value, 3);
  out.up = __shfl_up_sync(~0u, value, 3);
  out.butterfly = __shfl_xor_sync(~0u, value, 5);
  out.index = __shfl_sync(~0u, value, 7);
  out.segment = __shfl_down_sync(~0u, value, 1, 8);
  out.ballot = __ballot_sync(~0u, value % 2 == 0);
  out.match = __match_any_sync(~0u, value % 3);
  out.any = __any_sync(~0u, value == 40);
  out.all = __all_sync(~0u, value >= 0);
  out.sum = __reduce_add_sync(~0u, value);
  out.least = __reduce_min_sync(~0u, value);
  out.counted = __syncthreads_count(value % 4 == 0);
  out.active = 0;
  if (value % 2 == 0) out.active = __activemask();
  outputs[threadIdx.x] = out;
}

}  // namespace

void ExchangeByWarp(cudaStream_t stream, int* out, bool sync) {
  if (sync) {
    ExchangeByWarpKernel<true><<<1, 32, 0, stream>>>(out);
  } else {
    ExchangeByWarpKernel<false><<<1, 32, 0, stream>>>(out);
  }
}

void WaitForever(cudaStream_t stream, int* flag) { WaitForeverKernel<<<1, 32, 0, stream>>>(flag); }

void HalfOfTheWarpWaits(cudaStream_t stream, int* out) {
  HalfOfTheWarpWaitsKernel<<<1, 32, 0, stream>>>(out);
}

void ReadClock(cudaStream_t stream, int64_t* out) { ReadClockKernel<<<1, 1, 0, stream>>>(out); }

void PassBetweenWarps(cudaStream_t stream, int rounds, int* out) {
  PassBetweenWarpsKernel<<<1, 64, 0, stream>>>(rounds, out);
}

void SetTable(const float (&values)[4], cudaStream_t stream) {
  cudaMemcpyToSymbolAsync(global_table, values, sizeof values, 0, cudaMemcpyHostToDevice, stream);
}

void ReadTable(cudaStream_t stream, float* out) { ReadTableKernel<<<1, 4, 0, stream>>>(out); }

void WriteSharedDynamic(cudaStream_t stream, int threads, size_t shared_bytes, float* out) {
  WriteSharedDynamicKernel<<<1, threads, shared_bytes, stream>>>(out);
}

cudaError_t AllowShared(int bytes) {
  return cudaFuncSetAttribute(WriteSharedDynamicKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              bytes);
}

void ComputeScalars(cudaStream_t stream, int count, const ScalarInput* in, ScalarOutput* out) {
  ComputeScalarsKernel<<<(count + 63) / 64, 64, 0, stream>>>(count, in, out);
}

void ComputeWarp(cudaStream_t stream, int threads, const int* in, WarpOutput* out) {
  ComputeWarpKernel<<<1, threads, 0, stream>>>(in, out);
}

}  // namespace strata::standin
