// A thread per packet of a head's first half, and the one that it turns with; the grid's y loops
// over rows.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/rope.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Sizes {
  int64_t rows, sequence, start;
  const double* start_at;
  int64_t table_rows;
  int turned_heads, head_size, half, stride;
};

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    RopeKernel(Sizes s, const float* table, const int32_t* positions, float direction, T* qkv) {
  const int packets = s.half / N;  // of a half head
  const int index = blockIdx.x * kThreads + threadIdx.x;
  const int head = index / packets, i = index % packets * N;
  if (head >= s.turned_heads && !Planted(Mistake::kNoBound)) return;
  const bool placed = s.start_at != nullptr;
  const int64_t start = placed ? static_cast<int64_t>(*s.start_at) : s.start;
  for (int64_t row = blockIdx.y; row < s.rows; row += gridDim.y) {
    const int64_t position = positions != nullptr ? positions[row] : start + row % s.sequence;
    if (placed && position >= s.table_rows) continue;
    const float* angles = table + position * 2 * s.half + i;
    T* x = qkv + row * s.stride + head * s.head_size + i;
    float cosine[N], sine[N], low[N], high[N];
    Load(angles, cosine);
    Load(angles + s.half, sine);
    Load(x, low);
    Load(x + s.half, high);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float c = cosine[k], d = sine[k] * direction, a = low[k], b = high[k];
      low[k] = a * c - b * d;
      high[k] = b * c + a * d;
    }
    Store(x, low);
    Store(x + s.half, high);
  }
}

absl::Status Check(const RopeShape& s) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t width = s.width();
  if (s.rows < 0 || s.sequence < 1 || s.heads < 0 || s.kv_heads < 0 || s.head_size < 1 ||
      width < 2 || width % 2 != 0 || width > s.head_size || s.heads > kMost || s.kv_heads > kMost ||
      s.head_size > kMost / (s.heads + 2 * s.kv_heads + 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope of ", s.rows, " rows of ", s.heads, " + 2 * ", s.kv_heads, " heads of ",
                     s.head_size, ", of which ", width, " turn, in sequences of ", s.sequence));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status RopeApply(cudaStream_t stream, const RopeShape& shape, const float* table,
                       const int32_t* positions, bool inverse, T* qkv) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const Sizes sizes{
      .rows = shape.rows,
      .sequence = shape.sequence,
      .start = shape.start,
      .start_at = shape.start_at,
      .table_rows = shape.table_rows,
      .turned_heads = static_cast<int>(shape.heads + shape.kv_heads),
      .head_size = static_cast<int>(shape.head_size),
      .half = static_cast<int>(shape.width() / 2),
      .stride = static_cast<int>((shape.heads + 2 * shape.kv_heads) * shape.head_size)};
  if (sizes.turned_heads == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(sizes.half, qkv, table) && ByPackets<T>(sizes.head_size);
  const int64_t turns = int64_t{sizes.turned_heads} * sizes.half;
  const dim3 grid(BlocksFor(turns, kThreads * (by_packets ? kPacket<T> : 1)),
                  RowsOfGrid(shape.rows));
  return Launch("rope", by_packets ? &RopeKernel<T, kPacket<T>> : &RopeKernel<T, 1>, grid, kThreads,
                0, stream, sizes, table, positions, inverse ? -1.f : 1.f, qkv);
}

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status RopeApply<T>(cudaStream_t, const RopeShape&, const float*, const int32_t*, \
                                     bool, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
