#include "kernels/cuda/bias.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(256)
    AddBiasKernel(int64_t rows, int64_t width, const T* b, T* y) {
  ForRows<N>(rows, width, [&](int64_t row, int64_t c) {
    float v[N], bias[N];
    Load(y + row * width + c, v);
    Load(b + c, bias);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += bias[i];
    Store(y + row * width + c, v);
  });
}

}  // namespace

template <typename T>
absl::Status AddBias(cudaStream_t stream, int64_t rows, int64_t width, const T* b, T* y) {
  constexpr int64_t kMostWidth = int64_t{1} << 30;
  if (rows < 0 || width < 1 || width > kMostWidth) {
    return absl::InvalidArgumentError(absl::StrCat("bias of ", width, " in ", rows, " rows"));
  }
  if (rows == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(width, b, y);
  const auto [grid, threads] = GridOfRows(rows, by_packets ? width / kPacket<T> : width);
  return Launch("bias", by_packets ? &AddBiasKernel<T, kPacket<T>> : &AddBiasKernel<T, 1>, grid,
                threads, 0, stream, rows, width, b, y);
}

int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width) {
  return ColumnSumsWorkspaceBytes(rows, width);
}

template <typename T>
absl::Status BiasGradient(cudaStream_t stream, int64_t rows, int64_t width, const T* dy, float* db,
                          float* workspace) {
  return AddColumnSums(stream, rows, width, dy, db, workspace);
}

#define STRATA_INSTANTIATE(T)                                                     \
  template absl::Status AddBias<T>(cudaStream_t, int64_t, int64_t, const T*, T*); \
  template absl::Status BiasGradient<T>(cudaStream_t, int64_t, int64_t, const T*, float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
