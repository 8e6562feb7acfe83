// A thread per packet of a row of y; of the gradient, per packet of a row of the table, which adds
// all rows at its position.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/positions.h"

namespace strata::kernels::cuda {
namespace {

template <typename T, int N>
__global__ void __launch_bounds__(256)
    AddPositionsKernel(PositionsShape s, const T* table, const int32_t* positions, T* y) {
  if (s.start_at != nullptr) s.start = static_cast<int64_t>(*s.start_at);
  ForRows<N>(s.rows, s.channels, [&](int64_t row, int64_t c) {
    const int64_t position =
        positions != nullptr ? positions[row] : s.start + (s.first + row) % s.sequence;
    if (position < 0 || position >= s.context) return;
    float v[N], more[N];
    Load(y + row * s.channels + c, v);
    Load(table + position * s.channels + c, more);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += more[i];
    Store(y + row * s.channels + c, v);
  });
}

// `period` rows of the table from s.start on, of which each has every period-th row of dy.
template <typename T, int N>
__global__ void __launch_bounds__(256)
    PositionsGradientKernel(PositionsShape s, int64_t period, const T* dy, float* dtable) {
  ForRows<N>(period, s.channels, [&](int64_t place, int64_t c) {
    // The first row there: (first + n) % T is the place.
    const int64_t begin = (place - s.first % s.sequence + s.sequence) % s.sequence;
    if (begin >= s.rows) return;
    float sum[N], v[N];
    float* out = dtable + (s.start + place) * s.channels + c;
    Load(out, sum);
    for (int64_t row = begin; row < s.rows; row += s.sequence) {
      Load(dy + row * s.channels + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += v[i];
    }
    Store(out, sum);
  });
}

absl::Status Check(const PositionsShape& s) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (s.rows < 0 || s.rows > kMost || s.sequence < 1 || s.channels < 1 || s.channels > kMost ||
      s.context < 0 || s.context > kMost || s.start < 0 || s.first < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "positions of ", s.rows, " rows of ", s.channels, " channels from ", s.first,
        " on, in sequences of ", s.sequence, " from ", s.start, " on, of ", s.context));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status AddPositions(cudaStream_t stream, const PositionsShape& shape, const T* table,
                          const int32_t* positions, T* y) {
  RETURN_IF_ERROR(Check(shape));
  if (shape.rows == 0 || shape.context == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(shape.channels, table, y);
  const auto [grid, threads] =
      GridOfRows(shape.rows, by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch("positions",
                by_packets ? &AddPositionsKernel<T, kPacket<T>> : &AddPositionsKernel<T, 1>, grid,
                threads, 0, stream, shape, table, positions, y);
}

template <typename T>
absl::Status PositionsGradient(cudaStream_t stream, const PositionsShape& shape, const T* dy,
                               const int32_t* positions, float* dtable) {
  RETURN_IF_ERROR(Check(shape));
  if (shape.rows == 0 || shape.context <= shape.start) return absl::OkStatus();
  if (positions != nullptr) {
    return EmbeddingBackward(
        stream, {.rows = shape.rows, .channels = shape.channels, .count = shape.context}, positions,
        dy, dtable);
  }
  const int64_t period = std::min(shape.sequence, shape.context - shape.start);
  const bool by_packets = ByPackets<T>(shape.channels, dy, dtable);
  const auto [grid, threads] =
      GridOfRows(period, by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch(
      "positions' gradient",
      by_packets ? &PositionsGradientKernel<T, kPacket<T>> : &PositionsGradientKernel<T, 1>, grid,
      threads, 0, stream, shape, period, dy, dtable);
}

#define STRATA_INSTANTIATE(T)                                                               \
  template absl::Status AddPositions<T>(cudaStream_t, const PositionsShape&, const T*,      \
                                        const int32_t*, T*);                                \
  template absl::Status PositionsGradient<T>(cudaStream_t, const PositionsShape&, const T*, \
                                             const int32_t*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
