// A thread per packet, or per element where pointers are not aligned.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// What becomes of the N elements from `at` on.

template <typename T>
struct Plus {
  static constexpr bool kReads = true;
  const T* src;
  template <int N>
  __device__ void operator()(int64_t at, float (&v)[N]) const {
    float other[N];
    Load(src + at, other);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += other[i];
  }
};

struct Times {
  static constexpr bool kReads = true;
  float factor;
  template <int N>
  __device__ void operator()(int64_t, float (&v)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= factor;
  }
};

struct Capped {
  static constexpr bool kReads = true;
  float cap;
  template <int N>
  __device__ void operator()(int64_t, float (&v)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = cap * tanhf(v[i] / cap);
  }
};

struct Value {
  static constexpr bool kReads = false;
  float value;
  template <int N>
  __device__ void operator()(int64_t, float (&v)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = value;
  }
};

template <typename T, typename Map>
__global__ void __launch_bounds__(kThreads) MapKernel(int64_t count, bool wide, Map map, T* dst) {
  ForElements<T>(count, wide, [&]<int N>(Elements<N>, int64_t at) {
    float v[N];
    if constexpr (Map::kReads) Load(dst + at, v);
    map(at, v);
    Store(dst + at, v);
  });
}

template <typename T, typename Map>
absl::Status Run(cudaStream_t stream, const char* what, int64_t count, bool wide, Map map, T* dst) {
  if (count < 0) {
    return absl::InvalidArgumentError(absl::StrCat(what, " of ", count, " elements"));
  }
  if (count == 0) return absl::OkStatus();
  return Launch(what, &MapKernel<T, Map>, BlocksForElements<T>(count, wide, kThreads), kThreads, 0,
                stream, count, wide, map, dst);
}

__global__ void __launch_bounds__(kThreads)
    AddInOrderKernel(int64_t count, const float* values, double* sum) {
  AddInOrder<kThreads>(
      count, [&](int64_t at) { return values[at]; }, sum);
}

}  // namespace

template <typename T>
absl::Status Add(cudaStream_t stream, int64_t count, const T* src, T* dst) {
  return Run(stream, "sum of arrays", count, ByPackets<T>(0, src, dst), Plus<T>{src}, dst);
}

absl::Status Copy(cudaStream_t stream, int64_t bytes, const void* src, void* dst) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("copy of ", bytes, " bytes"));
  if (bytes == 0) return absl::OkStatus();
  return StatusOf("copy", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream));
}

absl::Status Zero(cudaStream_t stream, int64_t bytes, void* dst) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("zeros in ", bytes, " bytes"));
  if (bytes == 0) return absl::OkStatus();
  return StatusOf("zeros", cudaMemsetAsync(dst, 0, bytes, stream));
}

absl::Status Fill(cudaStream_t stream, int64_t count, float value, float* dst) {
  return Run(stream, "fill", count, ByPackets<float>(0, dst), Value{value}, dst);
}

template <typename T>
absl::Status Scale(cudaStream_t stream, int64_t count, float factor, T* dst) {
  return Run(stream, "scaling", count, ByPackets<T>(0, dst), Times{factor}, dst);
}

template <typename T>
absl::Status Softcap(cudaStream_t stream, int64_t count, float cap, T* x) {
  if (!(cap > 0)) return absl::InvalidArgumentError(absl::StrCat("softcap of ", cap));
  return Run(stream, "softcap", count, ByPackets<T>(0, x), Capped{cap}, x);
}

absl::Status AddInOrder(cudaStream_t stream, int64_t count, const float* values, double* sum) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat("sum of ", count, " values"));
  if (count == 0) return absl::OkStatus();
  return Launch("sum in order", &AddInOrderKernel, 1, kThreads, 0, stream, count, values, sum);
}

#define STRATA_INSTANTIATE(T)                                        \
  template absl::Status Add<T>(cudaStream_t, int64_t, const T*, T*); \
  template absl::Status Scale<T>(cudaStream_t, int64_t, float, T*);  \
  template absl::Status Softcap<T>(cudaStream_t, int64_t, float, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
