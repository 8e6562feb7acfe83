#include <cstring>

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/dequantise.h"
#include "kernels/nf4.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWeights = 8;  // of a thread at once: in 16 bits a packet
static_assert(kNf4Block % kWeights == 0);

// The numbers that codes of weights and of scales stand for.
struct Nf4Tables {
  float4 numbers[4];
  float4 scales[64];
};

// In shared memory: threads look at different entries.
struct Nf4Lookup {
  alignas(16) float numbers[16];
  alignas(16) float scales[256];
};

// `unit`: of a block's weights; `block`: in it.
template <bool kF32Scales>
__device__ float ScaleOf(const std::byte* unit, int64_t block, const Nf4Lookup& lookup) {
  if constexpr (kF32Scales) return reinterpret_cast<const float*>(unit)[block];
  constexpr int64_t kScalesAt = kNf4UnitBytes - kNf4Unit / 2 - kNf4UnitBlocks;
  const auto* const header = reinterpret_cast<const float*>(unit);  // largest, offset
  const auto code = static_cast<uint8_t>(unit[kScalesAt + block]);
  return __fadd_rn(__fmul_rn(lookup.scales[code], header[0]), header[1]);  // as on the CPU
}

template <typename T, bool kF32Scales>
__global__ void __launch_bounds__(kThreads)
    DequantiseNf4Kernel(int64_t count, const std::byte* units,
                        const __grid_constant__ Nf4Tables tables, T* weights) {
  constexpr int64_t kUnitBytes = kF32Scales ? kNf4F32UnitBytes : kNf4UnitBytes;
  constexpr int64_t kCodesAt = kUnitBytes - kNf4Unit / 2;
  __shared__ Nf4Lookup lookup;
  if (threadIdx.x < 4) {
    reinterpret_cast<float4*>(lookup.numbers)[threadIdx.x] = tables.numbers[threadIdx.x];
  }
  if (threadIdx.x < 64 && !kF32Scales) {
    reinterpret_cast<float4*>(lookup.scales)[threadIdx.x] = tables.scales[threadIdx.x];
  }
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();

  const bool by_packets = reinterpret_cast<uintptr_t>(weights) % 16 == 0;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  for (int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kWeights;
       at < end; at += threads * kWeights) {
    const std::byte* const unit = units + at / kNf4Unit * kUnitBytes;
    const int64_t inside = at % kNf4Unit;
    const uint32_t codes = *reinterpret_cast<const uint32_t*>(unit + kCodesAt + inside / 2);
    const float scale = ScaleOf<kF32Scales>(unit, inside / kNf4Block, lookup);
    float values[kWeights];
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      const int shift = 8 * (i / 2) + (i % 2 == 0 ? 4 : 0);  // the first in a byte's upper half
      values[i] = __fmul_rn(lookup.numbers[codes >> shift & 15], scale);
    }
    if (by_packets && at + kWeights <= end) {
      Store(weights + at, values);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      if (at + i < end) weights[at + i] = FromF32<T>(values[i]);
    }
  }
}

// A thread takes N columns; the grid's y loops over rows.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    DequantiseInt8Kernel(int64_t rows, int64_t columns, const int8_t* codes, const float* scales,
                         T* weights) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (column >= columns && !Planted(Mistake::kNoBound)) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int64_t at = row * columns + column;
    const float scale = scales[row];
    float values[N];
    if constexpr (N == 1) {
      values[0] = __fmul_rn(codes[at], scale);
    } else {
      const uint2 packet = *reinterpret_cast<const uint2*>(codes + at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const uint32_t word = i < 4 ? packet.x : packet.y;
        values[i] = __fmul_rn(static_cast<int8_t>(word >> (8 * (i % 4))), scale);
      }
    }
    Store(weights + at, values);
  }
}

}  // namespace

template <typename T>
absl::Status DequantiseNf4(cudaStream_t stream, const std::byte* units, bool f32_scales,
                           int64_t count, T* weights) {
  // Each block reads the tables: few, and two rounds for each where there are so many.
  constexpr int64_t kMostBlocks = 1024, kOfBlock = 2 * kThreads * kWeights;
  if (count < 0 || reinterpret_cast<uintptr_t>(units) % 4 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("NF4: ", count, " weights of units at an address that is ",
                     reinterpret_cast<uintptr_t>(units) % 4, " past a multiple of 4"));
  }
  if (count == 0) return absl::OkStatus();
  Nf4Tables tables;
  static_assert(sizeof(tables.numbers) == sizeof(Nf4Numbers()));
  static_assert(sizeof(tables.scales) == sizeof(Nf4ScaleNumbers()));
  std::memcpy(tables.numbers, Nf4Numbers().data(), sizeof(tables.numbers));
  std::memcpy(tables.scales, Nf4ScaleNumbers().data(), sizeof(tables.scales));
  const unsigned blocks = BlocksFor(std::min(count, kMostBlocks * kOfBlock), kOfBlock);
  return Launch("NF4 weights",
                f32_scales ? &DequantiseNf4Kernel<T, true> : &DequantiseNf4Kernel<T, false>, blocks,
                kThreads, 0, stream, count, units, tables, weights);
}

template <typename T>
absl::Status DequantiseInt8(cudaStream_t stream, const int8_t* codes, const float* scales,
                            int64_t rows, int64_t columns, T* weights) {
  if (rows < 0 || columns < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights in 8 bits: ", rows, " rows of ", columns));
  }
  if (rows == 0) return absl::OkStatus();
  const bool wide = columns % kWeights == 0 && reinterpret_cast<uintptr_t>(codes) % 8 == 0 &&
                    ByPackets<T>(columns, weights);
  return Launch("weights in 8 bits",
                wide ? &DequantiseInt8Kernel<T, kWeights> : &DequantiseInt8Kernel<T, 1>,
                dim3(BlocksFor(columns, kThreads * (wide ? kWeights : 1)), RowsOfGrid(rows)),
                kThreads, 0, stream, rows, columns, codes, scales, weights);
}

#define STRATA_INSTANTIATE(T)                                                                 \
  template absl::Status DequantiseNf4<T>(cudaStream_t, const std::byte*, bool, int64_t, T*);  \
  template absl::Status DequantiseInt8<T>(cudaStream_t, const int8_t*, const float*, int64_t, \
                                          int64_t, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
