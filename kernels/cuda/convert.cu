#include "kernels/cuda/common.cuh"
#include "kernels/cuda/convert.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWide = 8;  // a packet of 16 bits, two of f32

// N numbers per thread; the last block's threads take those that are left besides.
template <typename From, typename To, int N>
__global__ void __launch_bounds__(kThreads) ConvertKernel(int64_t count, const From* src, To* dst) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread * N + N <= count) {
    float values[N];
    Load(src + thread * N, values);
    Store(dst + thread * N, values);
  }
  const int64_t rest = count / N * N + threadIdx.x;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  if (blockIdx.x == gridDim.x - 1 && rest < end) dst[rest] = FromF32<To>(ToF32(src[rest]));
}

}  // namespace

template <typename From, typename To>
absl::Status Convert(cudaStream_t stream, int64_t count, const From* src, To* dst) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat(count, " numbers to convert"));
  if (count == 0) return absl::OkStatus();
  const bool wide = ByPackets<float>(0, src, dst);
  return Launch("conversion", wide ? &ConvertKernel<From, To, kWide> : &ConvertKernel<From, To, 1>,
                BlocksFor(count, kThreads * (wide ? kWide : 1)), kThreads, 0, stream, count, src,
                dst);
}

template absl::Status Convert(cudaStream_t, int64_t, const float*, BFloat16*);
template absl::Status Convert(cudaStream_t, int64_t, const float*, Float16*);
template absl::Status Convert(cudaStream_t, int64_t, const BFloat16*, float*);
template absl::Status Convert(cudaStream_t, int64_t, const Float16*, float*);

}  // namespace strata::kernels::cuda
