// A block takes some columns of a part of the rows, by strips of rows that are
// added in order.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kPackets = 32, kStrips = 8;  // of a block: across, down
constexpr int64_t kRowsPerPart = 32, kParts = 128;

int64_t PartsOf(int64_t rows) {
  return std::clamp<int64_t>((rows + kRowsPerPart - 1) / kRowsPerPart, 1, kParts);
}

// sums[parts, columns] = or, with `add`, += those of values[rows, pitch]; and
// in the grid's second layer those of the next columns, to `more_sums`.
template <typename T, int N>
__global__ void __launch_bounds__(kPackets* kStrips)
    ColumnSumsKernel(int rows, int64_t columns, int64_t pitch, bool add, const T* values,
                     float* sums, float* more_sums) {
  __shared__ __align__(16) float strips[kStrips][kPackets * N];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kPackets + threadIdx.x) * N;
  const bool inside = c < columns || Planted(Mistake::kNoBound);
  float sum[N] = {}, more[N];
  if (blockIdx.z == 1) {
    values += columns;
    sums = more_sums;
  }
  const int first = blockIdx.y * kStrips + threadIdx.y, step = gridDim.y * kStrips;
  const int count = inside && first < rows ? (rows - first + step - 1) / step : 0;
  const T* at = values + first * pitch + c;
#pragma unroll 8  // rows on their way at once
  for (int i = 0; i < count; ++i, at += step * pitch) {
    Load(at, more);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += more[k];
  }
  Store(strips[threadIdx.y] + threadIdx.x * N, sum);
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  if (threadIdx.y != 0 || !inside) return;
#pragma unroll
  for (int strip = 1; strip < kStrips; ++strip) {
    Load(strips[strip] + threadIdx.x * N, more);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += more[i];
  }
  float* out = sums + blockIdx.y * columns + c;
  if (add) {
    Load(out, more);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += more[i];
  }
  Store(out, sum);
}

absl::Status Check(int64_t rows, int64_t columns) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (rows < 0 || rows > kMost || columns < 1 || columns > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("sums of ", columns, " columns over ", rows, " rows"));
  }
  return absl::OkStatus();
}

template <typename T, int N>
absl::Status Run(cudaStream_t stream, int64_t rows, int64_t columns, int64_t pitch, int64_t parts,
                 const T* values, bool add, float* sums, float* more_sums) {
  const dim3 grid(BlocksFor(columns, kPackets * N), static_cast<unsigned>(parts),
                  more_sums == nullptr ? 1 : 2);
  return Launch("sums of columns", &ColumnSumsKernel<T, N>, grid, dim3(kPackets, kStrips), 0,
                stream, static_cast<int>(rows), columns, pitch, add, values, sums, more_sums);
}

}  // namespace

int64_t ColumnSumsWorkspaceBytes(int64_t rows, int64_t columns) {
  return PartsOf(rows) * columns * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status AddColumnSums(cudaStream_t stream, int64_t rows, int64_t columns, const T* values,
                           float* sums, float* workspace) {
  RETURN_IF_ERROR(Check(rows, columns));
  if (rows == 0) return absl::OkStatus();
  const int64_t parts = PartsOf(rows);
  const auto run = ByPackets<T>(columns, values, workspace) ? &Run<T, kPacket<T>> : &Run<T, 1>;
  RETURN_IF_ERROR(run(stream, rows, columns, columns, parts, values, false, workspace, nullptr));
  return AddPartialSums(stream, parts, columns, workspace, sums);
}

absl::Status AddPartialSums(cudaStream_t stream, int64_t rows, int64_t columns,
                            const float* partial, float* sums, float* more_sums) {
  const int64_t pitch = more_sums == nullptr ? columns : 2 * columns;
  RETURN_IF_ERROR(Check(rows, columns));
  if (rows == 0) return absl::OkStatus();
  return Run<float, 1>(stream, rows, columns, pitch, 1, partial, true, sums,
                       more_sums);  // by elements: more blocks
}

#define STRATA_INSTANTIATE(T) \
  template absl::Status AddColumnSums<T>(cudaStream_t, int64_t, int64_t, const T*, float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
