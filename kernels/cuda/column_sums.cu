// A block takes some columns of a part of the rows, by strips of rows that are added in order.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kPackets = 32, kStrips = 8;  // of a block: across, down
constexpr int64_t kRowsPerPart = 32, kParts = 128;

int64_t PartsOf(int64_t rows) {
  return std::clamp<int64_t>((rows + kRowsPerPart - 1) / kRowsPerPart, 1, kParts);
}

// sums[parts, columns] = or, with `add`, += those of values[rows, pitch].
template <typename T, int N>
__global__ void __launch_bounds__(kPackets* kStrips)
    ColumnSumsKernel(int64_t rows, int64_t columns, int64_t pitch, bool add, const T* values,
                     float* sums) {
  __shared__ __align__(16) float strips[kStrips][kPackets * N];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * kPackets + threadIdx.x) * N;
  const bool inside = c < columns || Planted(Mistake::kNoBound);
  float sum[N] = {}, more[N];
  if (inside) {
    for (int64_t row = blockIdx.y * kStrips + threadIdx.y; row < rows; row += gridDim.y * kStrips) {
      Load(values + row * pitch + c, more);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += more[i];
    }
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

absl::Status Check(int64_t rows, int64_t columns, int64_t pitch) {
  constexpr int64_t kMostColumns = int64_t{1} << 30;
  if (rows < 0 || columns < 1 || columns > kMostColumns || pitch < columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("sums of ", columns, " columns over ", rows, " rows of ", pitch));
  }
  return absl::OkStatus();
}

template <typename T, int N>
absl::Status Run(cudaStream_t stream, int64_t rows, int64_t columns, int64_t pitch, int64_t parts,
                 const T* values, bool add, float* sums) {
  const dim3 grid(BlocksFor(columns, kPackets * N), static_cast<unsigned>(parts));
  return Launch("sums of columns", &ColumnSumsKernel<T, N>, grid, dim3(kPackets, kStrips), 0,
                stream, rows, columns, pitch, add, values, sums);
}

}  // namespace

int64_t ColumnSumsWorkspaceBytes(int64_t rows, int64_t columns) {
  return PartsOf(rows) * columns * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status AddColumnSums(cudaStream_t stream, int64_t rows, int64_t columns, const T* values,
                           float* sums, float* workspace) {
  RETURN_IF_ERROR(Check(rows, columns, columns));
  if (rows == 0) return absl::OkStatus();
  const int64_t parts = PartsOf(rows);
  const auto run = ByPackets<T>(columns, values, workspace) ? &Run<T, kPacket<T>> : &Run<T, 1>;
  RETURN_IF_ERROR(run(stream, rows, columns, columns, parts, values, false, workspace));
  return AddPartialSums(stream, parts, columns, columns, workspace, sums);
}

absl::Status AddPartialSums(cudaStream_t stream, int64_t rows, int64_t columns, int64_t pitch,
                            const float* partial, float* sums) {
  RETURN_IF_ERROR(Check(rows, columns, pitch));
  if (rows == 0) return absl::OkStatus();
  return Run<float, 1>(stream, rows, columns, pitch, 1, partial, true, sums);  // more blocks
}

#define STRATA_INSTANTIATE(T) \
  template absl::Status AddColumnSums<T>(cudaStream_t, int64_t, int64_t, const T*, float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
