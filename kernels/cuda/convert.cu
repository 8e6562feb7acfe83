#include "kernels/cuda/common.cuh"
#include "kernels/cuda/convert.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWide = 4;  // 16 bytes of f32, 8 of 16 bits: a warp's lie side by side in both

template <typename T>
__device__ void LoadFew(const T* p, float (&values)[kWide]) {
  if constexpr (sizeof(T) == 4) {
    Load(p, values);
  } else {
    const uint2 packet = *reinterpret_cast<const uint2*>(p);
    Unpack<T>(packet.x, values);
    Unpack<T>(packet.y, values + 2);
  }
}
template <typename T>
__device__ void StoreFew(T* p, const float (&values)[kWide]) {
  if constexpr (sizeof(T) == 4) {
    Store(p, values);
  } else {
    *reinterpret_cast<uint2*>(p) = make_uint2(Pack<T>(values), Pack<T>(values + 2));
  }
}

// kWide numbers per thread or one; the last block's threads take those that are left besides.
template <typename From, typename To, bool kByPackets>
__global__ void __launch_bounds__(kThreads) ConvertKernel(int64_t count, const From* src, To* dst) {
  constexpr int kEach = kByPackets ? kWide : 1;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread * kEach + kEach <= count) {
    if constexpr (kByPackets) {
      float values[kWide];
      LoadFew(src + thread * kWide, values);
      StoreFew(dst + thread * kWide, values);
    } else {
      dst[thread] = FromF32<To>(ToF32(src[thread]));
    }
  }
  const int64_t rest = count / kEach * kEach + threadIdx.x;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  if (blockIdx.x == gridDim.x - 1 && rest < end) dst[rest] = FromF32<To>(ToF32(src[rest]));
}

}  // namespace

template <typename From, typename To>
absl::Status Convert(cudaStream_t stream, int64_t count, const From* src, To* dst) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat(count, " numbers to convert"));
  if (count == 0) return absl::OkStatus();
  const bool wide = ByPackets<float>(0, src, dst);
  return Launch(
      "conversion", wide ? &ConvertKernel<From, To, true> : &ConvertKernel<From, To, false>,
      BlocksFor(count, kThreads * (wide ? kWide : 1)), kThreads, 0, stream, count, src, dst);
}

template absl::Status Convert(cudaStream_t, int64_t, const float*, BFloat16*);
template absl::Status Convert(cudaStream_t, int64_t, const float*, Float16*);
template absl::Status Convert(cudaStream_t, int64_t, const BFloat16*, float*);
template absl::Status Convert(cudaStream_t, int64_t, const Float16*, float*);

}  // namespace strata::kernels::cuda
