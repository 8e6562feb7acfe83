// A thread per packet of a row's columns; the grid's y loops over rows.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float Sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    SwigluForwardKernel(int64_t rows, int ffn, const T* gate_up, T* h) {
  const int c = (blockIdx.x * kThreads + threadIdx.x) * N;
  if (c >= ffn && !Planted(Mistake::kNoBound)) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float gate[N], up[N];
    Load(gate_up + row * 2 * ffn + c, gate);
    Load(gate_up + row * 2 * ffn + ffn + c, up);
#pragma unroll
    for (int i = 0; i < N; ++i) up[i] *= gate[i] * Sigmoid(gate[i]);
    Store(h + row * ffn + c, up);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    SwigluBackwardKernel(int64_t rows, int ffn, const T* dh, const T* gate_up, T* dgate_up) {
  const int c = (blockIdx.x * kThreads + threadIdx.x) * N;
  if (c >= ffn && !Planted(Mistake::kNoBound)) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int64_t at = row * 2 * ffn + c;
    float d[N], gate[N], up[N];
    Load(dh + row * ffn + c, d);
    Load(gate_up + at, gate);
    Load(gate_up + at + ffn, up);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float x = gate[i], sigmoid = Sigmoid(x);
      gate[i] = d[i] * up[i] * sigmoid * (1.f + x * (1.f - sigmoid));
      up[i] = d[i] * x * sigmoid;
    }
    Store(dgate_up + at, gate);
    Store(dgate_up + at + ffn, up);
  }
}

absl::Status Check(int64_t rows, int64_t ffn) {
  if (rows < 0 || ffn < 1 || ffn > int64_t{1} << 29) {
    return absl::InvalidArgumentError(absl::StrCat("SwiGLU of ", rows, " rows of ", ffn));
  }
  return absl::OkStatus();
}

template <typename T>
dim3 Grid(int64_t rows, int64_t ffn, bool by_packets) {
  return {BlocksFor(ffn, kThreads * (by_packets ? kPacket<T> : 1)), RowsOfGrid(rows), 1};
}

}  // namespace

template <typename T>
absl::Status SwigluForward(cudaStream_t stream, int64_t rows, int64_t ffn, const T* gate_up, T* h) {
  if (const absl::Status status = Check(rows, ffn); !status.ok() || rows == 0) return status;
  const bool by_packets = ByPackets<T>(ffn, gate_up, h);
  return Launch(
      "SwiGLU", by_packets ? &SwigluForwardKernel<T, kPacket<T>> : &SwigluForwardKernel<T, 1>,
      Grid<T>(rows, ffn, by_packets), kThreads, 0, stream, rows, static_cast<int>(ffn), gate_up, h);
}

template <typename T>
absl::Status SwigluBackward(cudaStream_t stream, int64_t rows, int64_t ffn, const T* dh,
                            const T* gate_up, T* dgate_up) {
  if (const absl::Status status = Check(rows, ffn); !status.ok() || rows == 0) return status;
  const bool by_packets = ByPackets<T>(ffn, dh, gate_up, dgate_up);
  return Launch("SwiGLU's gradient",
                by_packets ? &SwigluBackwardKernel<T, kPacket<T>> : &SwigluBackwardKernel<T, 1>,
                Grid<T>(rows, ffn, by_packets), kThreads, 0, stream, rows, static_cast<int>(ffn),
                dh, gate_up, dgate_up);
}

#define STRATA_INSTANTIATE(T)                                                           \
  template absl::Status SwigluForward<T>(cudaStream_t, int64_t, int64_t, const T*, T*); \
  template absl::Status SwigluBackward<T>(cudaStream_t, int64_t, int64_t, const T*, const T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
