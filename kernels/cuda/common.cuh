// What CUDA kernels share: numbers by 16 bytes, sums over a block, launches.
#ifndef STRATA_KERNELS_CUDA_COMMON_CUH_
#define STRATA_KERNELS_CUDA_COMMON_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/mistake.h"
#include "kernels/number_types.h"

namespace strata::kernels::cuda {

// --- Planted mistakes.

#ifdef STRATA_CUDA_PLANT_MISTAKES
namespace {
__constant__ Mistake planted_mistake;  // each source has its own
}
__device__ inline bool Planted(Mistake mistake) { return planted_mistake == mistake; }
#else
__device__ constexpr bool Planted(Mistake) { return false; }
#endif

// --- Numbers: kept as T, computed with as f32.

__device__ inline float ToF32(float value) { return value; }
__device__ inline float ToF32(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ inline float ToF32(Float16 value) { return __half2float(__ushort_as_half(value.bits)); }

template <typename T>
__device__ T FromF32(float value);
template <>
__device__ inline float FromF32<float>(float value) {
  return value;
}
template <>
__device__ inline BFloat16 FromF32<BFloat16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
template <>
__device__ inline Float16 FromF32<Float16>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}

// As many T as 16 bytes have.
template <typename T>
inline constexpr int kPacket = 16 / sizeof(T);

template <typename T>
__device__ __forceinline__ void Unpack(uint32_t word, float* values) {
  if constexpr (sizeof(T) == 4) {
    values[0] = __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    values[0] = __uint_as_float(word << 16);
    values[1] = __uint_as_float(word & 0xffff0000u);
  } else {
    values[0] = ToF32(T{static_cast<uint16_t>(word)});
    values[1] = ToF32(T{static_cast<uint16_t>(word >> 16)});
  }
}
template <typename T>
__device__ __forceinline__ uint32_t Pack(const float* values) {
  if constexpr (sizeof(T) == 4) {
    return __float_as_uint(values[0]);
  } else {
    const uint32_t high = FromF32<T>(values[1]).bits;
    return high << 16 | FromF32<T>(values[0]).bits;
  }
}

// N numbers from p on: one, or whole packets, to which p is aligned.
template <int N, typename T>
__device__ __forceinline__ void Load(const T* p, float (&values)[N]) {
  static_assert(N == 1 || N % kPacket<T> == 0);
  if constexpr (N == 1) {
    values[0] = ToF32(*p);
  } else {
    constexpr int kWord = 4 / sizeof(T);
#pragma unroll
    for (int i = 0; i < N / kPacket<T>; ++i) {
      const uint4 packet = reinterpret_cast<const uint4*>(p)[i];
      float* out = values + i * kPacket<T>;
      Unpack<T>(packet.x, out);
      Unpack<T>(packet.y, out + kWord);
      Unpack<T>(packet.z, out + 2 * kWord);
      Unpack<T>(packet.w, out + 3 * kWord);
    }
  }
}
template <int N, typename T>
__device__ __forceinline__ void Store(T* p, const float (&values)[N]) {
  static_assert(N == 1 || N % kPacket<T> == 0);
  if constexpr (N == 1) {
    *p = FromF32<T>(values[0]);
  } else {
    constexpr int kWord = 4 / sizeof(T);
#pragma unroll
    for (int i = 0; i < N / kPacket<T>; ++i) {
      const float* in = values + i * kPacket<T>;
      reinterpret_cast<uint4*>(p)[i] = make_uint4(Pack<T>(in), Pack<T>(in + kWord),
                                                  Pack<T>(in + 2 * kWord), Pack<T>(in + 3 * kWord));
    }
  }
}

// Whether rows of `width` T can be read by packets: they and all pointers are aligned.
template <typename T, typename... Pointers>
bool ByPackets(int64_t width, const Pointers*... pointers) {
  return width % kPacket<T> == 0 &&
         ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ... && true);
}

// --- Over a block of kThreads: the same on every thread, and the same bits in every run.

struct Sum {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// `partial`: shared, a value per warp; free for others' use afterwards.
template <int kThreads, typename V, typename Combine>
__device__ V OverBlock(V value, V* partial, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
    value = combine(value, __shfl_xor_sync(mask, value, distance));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  V total = partial[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) total = combine(total, partial[warp]);
  if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
  return total;
}

// --- Launches.

inline absl::Status StatusOf(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

// Blocks of `threads` for `count` elements.
inline unsigned BlocksFor(int64_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}
// Along a grid's y, over whose rows kernels loop.
inline unsigned RowsOfGrid(int64_t rows) {
  return static_cast<unsigned>(std::min<int64_t>(rows, 65535));
}

// For launches of the kernel with so many bytes of dynamic shared memory: more than any kernel may
// have must be asked for.
template <typename... Parameters>
absl::Status AllowShared(const char* what, void (*kernel)(Parameters...), size_t bytes) {
  constexpr size_t kWithoutAsking = 47 << 10;  // 48 KiB, with what it declares
  if (bytes <= kWithoutAsking) return absl::OkStatus();
  return StatusOf(what, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(bytes)));
}

template <typename... Parameters, typename... Arguments>
absl::Status Launch(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 threads,
                    size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
#ifdef STRATA_CUDA_PLANT_MISTAKES
  const Mistake mistake = PlantedMistake();
  const cudaError_t error = cudaMemcpyToSymbolAsync(planted_mistake, &mistake, sizeof(mistake), 0,
                                                    cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return StatusOf("planting a mistake", error);
#endif
  kernel<<<grid, threads, shared_bytes, stream>>>(arguments...);
  return StatusOf(what, cudaGetLastError());
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_COMMON_CUH_
