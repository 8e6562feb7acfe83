#include "kernels/cuda/common.cuh"
#include "kernels/cuda/step.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSumBlocks = kSumSquaresWorkspaceBytes / sizeof(double);

// partial_sums[blocks]. f64 from the first square on: in f32 it might overflow, and a finite
// gradient would pass for one that is not.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    SumSquaresKernel(int64_t count, const T* x, double* partial_sums) {
  __shared__ double partial[kThreads / 32];
  double sum = 0;
  const auto add = [&sum](float value) {
    sum = fma(static_cast<double>(value), static_cast<double>(value), sum);
  };
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads, packets = count / N;
#pragma unroll 4
  for (int64_t packet = thread; packet < packets; packet += threads) {
    float values[N];
    Load(x + packet * N, values);
#pragma unroll
    for (int i = 0; i < N; ++i) add(values[i]);
  }
  const int64_t rest = packets * N + thread;  // fewer than a block has threads
  if (rest < count + (Planted(Mistake::kNoBound) ? 1 : 0)) add(ToF32(x[rest]));
  sum = OverBlock<kThreads>(sum, partial, Sum());
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(kThreads)
    SumOfSumsKernel(int count, const double* partial_sums, double* out) {
  __shared__ double partial[kThreads / 32];
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) sum += partial_sums[i];
  sum = OverBlock<kThreads>(sum, partial, Sum());
  if (threadIdx.x == 0) *out = sum;
}

constexpr int kWarps = 32;

// The sum of value(0) … value(count - 1) in the fixed tree (leaves are paired bottom-up, an odd
// last one passes up unchanged), by a warp. Tiles of 32 leaves are its nodes of level 5.
template <typename Value>
__device__ double TreeSum(int64_t count, Value value) {
  constexpr double kNothing = -0.0;  // changes no sum that it is added to
  const int lane = threadIdx.x % 32;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  // Where bit l of the number of tiles is set, lane l has the sum of 2^l of them.
  double of_level = kNothing;
  int64_t tiles = 0;
  for (; tiles * 32 < end; ++tiles) {
    const int64_t leaf = tiles * 32 + lane;
    double sum = leaf < end ? value(leaf) : kNothing;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
      sum += __shfl_xor_sync(mask, sum, distance);
    }
    int level = 0;
    for (; (tiles >> level & 1) != 0; ++level) sum = __shfl_sync(~0u, of_level, level) + sum;
    if (lane == level) of_level = sum;
  }
  double total = kNothing;
  for (int level = 0; level < 32; ++level) {
    if ((tiles >> level & 1) != 0) total = __shfl_sync(~0u, of_level, level) + total;
  }
  return total;
}

// One block: a warp takes the losses, each other one a set of norms, in turns.
__global__ void __launch_bounds__(kWarps * 32)
    FinishStepKernel(FinishStepShape shape, const double* losses, const double* norms,
                     FinishStepScalars scalars) {
  __shared__ double sums[kWarps];
  const int warp = threadIdx.x / 32;
  const int64_t per_rank = shape.rows / shape.data, ranges = shape.rows / shape.norm_ranks;
  const int64_t per_replica = per_rank * shape.together;
  const auto loss_of_leaf = [=](int64_t leaf) {
    const int64_t inside = leaf % per_replica;
    const int64_t rank = leaf / per_replica * shape.together + inside % shape.together;
    return losses[rank * per_rank + inside / shape.together];
  };
  double loss = 0, squares = 0;
  for (int64_t first = 0; first <= shape.sets; first += kWarps) {
    const int64_t mine = first + warp;
    if (mine <= shape.sets) {
      const double sum =
          mine == 0 ? TreeSum(shape.rows, loss_of_leaf) : TreeSum(shape.rows, [=](int64_t range) {
            return norms[(range / ranges * shape.sets + mine - 1) * ranges + range % ranges];
          });
      if (threadIdx.x % 32 == 0) sums[warp] = sum;
    }
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    for (int i = 0; threadIdx.x == 0 && i < kWarps && first + i <= shape.sets; ++i) {
      (first + i == 0 ? loss : squares) += sums[i];
    }
    if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const double scale = scalars.loss_scale == nullptr ? 1 : *scalars.loss_scale;
  loss = loss * *scalars.inverse_tokens / scale;
  *scalars.loss = loss;
  if (shape.sets == 0) return;
  const double norm = sqrt(squares) / scale;
  *scalars.gradient_norm = norm;
  double clip = 1;
  if (shape.clip > 0 && shape.clip / (norm + 1e-6) < 1) clip = shape.clip / (norm + 1e-6);
  *scalars.clip_factor = clip / scale;
  *scalars.clipped = clip < 1 ? 1 : 0;
  *scalars.apply = isfinite(loss) && isfinite(norm) ? 1 : 0;
}

}  // namespace

template <typename T>
absl::Status SumSquares(cudaStream_t stream, int64_t count, const T* x, double* out,
                        void* workspace) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat("squares of ", count, " numbers"));
  const bool by_packets = ByPackets<T>(0, x);
  const int64_t each = int64_t{kThreads} * 4 * (by_packets ? kPacket<T> : 1);
  const int blocks =
      static_cast<int>(std::clamp<int64_t>((count + each - 1) / each, 1, kSumBlocks));
  auto* const partial_sums = static_cast<double*>(workspace);
  const absl::Status status = Launch(
      "sum of squares", by_packets ? &SumSquaresKernel<T, kPacket<T>> : &SumSquaresKernel<T, 1>,
      blocks, kThreads, 0, stream, count, x, partial_sums);
  if (!status.ok()) return status;
  return Launch("sum of squares, over blocks", &SumOfSumsKernel, 1, kThreads, 0, stream, blocks,
                partial_sums, out);
}

absl::Status FinishStep(cudaStream_t stream, const FinishStepShape& shape, const double* losses,
                        const double* norms, const FinishStepScalars& scalars) {
  const auto divides = [](int64_t a, int64_t b) { return a > 0 && b % a == 0; };
  if (shape.rows < 1 || shape.sets < 0 || !divides(shape.data, shape.rows) ||
      !divides(shape.together, shape.data) || !divides(shape.norm_ranks, shape.rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("finish of a step of ", shape.rows, " rows and ", shape.sets, " sets"));
  }
  return Launch("finish of a step", &FinishStepKernel, 1, kWarps * 32, 0, stream, shape, losses,
                norms, scalars);
}

template absl::Status SumSquares<float>(cudaStream_t, int64_t, const float*, double*, void*);
template absl::Status SumSquares<BFloat16>(cudaStream_t, int64_t, const BFloat16*, double*, void*);
template absl::Status SumSquares<Float16>(cudaStream_t, int64_t, const Float16*, double*, void*);

}  // namespace strata::kernels::cuda
