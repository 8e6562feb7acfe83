#include <cmath>
#include <type_traits>

#include "kernels/cuda/adamw.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSumBlocks = 1024;
constexpr int kNumbersBetween = 8;  // strides that are summed in f32 before they go to f64

int64_t SumBlocks(int64_t count) {
  constexpr int64_t kEach = kThreads * kNumbers * 4;
  return std::clamp<int64_t>((count + kEach - 1) / kEach, 1, kSumBlocks);
}

// statistics[blocks].
template <typename G>
__global__ void __launch_bounds__(kThreads)
    GradientStatisticsKernel(int64_t count, bool wide, const G* gradient,
                             GradientStatistics* statistics) {
  __shared__ double partial[kThreads / 32];
  double squares = 0;
  float part = 0;  // of few elements: f32 is precise enough, and f64 slow
  int parts = 0;
  bool not_finite = false;
  ForElements(count, wide, [&]<int N>(Elements<N>, int64_t at) {
    float g[N];
    Load(gradient + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      not_finite |= !isfinite(g[i]);
      part += g[i] * g[i];
    }
    if (++parts == kNumbersBetween) {
      squares += part;
      part = 0;
      parts = 0;
    }
  });
  squares = OverBlock<kThreads>(squares + part, partial, Sum());
  const int some = __syncthreads_or(not_finite);
  if (threadIdx.x == 0) statistics[blockIdx.x] = {squares, uint64_t{some != 0}};
}

// One block.
__global__ void __launch_bounds__(kThreads)
    CombineStatisticsKernel(int count, const GradientStatistics* partial_statistics, bool add,
                            GradientStatistics* statistics) {
  __shared__ double partial[kThreads / 32];
  double squares = 0;
  bool not_finite = false;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    squares += partial_statistics[i].squares;
    not_finite |= partial_statistics[i].not_finite != 0;
  }
  squares = OverBlock<kThreads>(squares, partial, Sum());
  const int some = __syncthreads_or(not_finite);
  if (threadIdx.x != 0) return;
  const GradientStatistics before = add ? *statistics : GradientStatistics{};
  *statistics = {before.squares + squares, before.not_finite | uint64_t{some != 0}};
}

// What the host computes once, in f64.
struct Scalars {
  float keep;                 // of a weight: 1 - rate * decay
  float rate;                 // over the first moment's bias
  float less1, beta2, less2;  // 1 - beta1, beta2, 1 - beta2
  float root_bias2;
  float epsilon;
  double factor, clip;
};

__device__ float Factor(const Scalars& s, const GradientStatistics* statistics) {
  if (statistics == nullptr || s.clip == 0) return static_cast<float>(s.factor);
  const double norm = sqrt(statistics->squares) * s.factor;
  const double clip = s.clip / (norm + 1e-6);
  return static_cast<float>(s.factor * (clip < 1 ? clip : 1));
}

template <typename W, typename G>
__global__ void __launch_bounds__(kThreads)
    AdamWKernel(int64_t count, bool wide, Scalars s, const GradientStatistics* statistics,
                const G* gradient, float* master, float* m, float* v, W* weights) {
  if (statistics != nullptr && statistics->not_finite != 0) return;
  const float factor = Factor(s, statistics);
  ForElements(count, wide, [&]<int N>(Elements<N>, int64_t at) {
    float g[N], w[N], first[N], second[N];
    Load(gradient + at, g);
    Load(master + at, w);
    Load(m + at, first);
    Load(v + at, second);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = g[i] * factor;
      first[i] += (scaled - first[i]) * s.less1;
      second[i] = second[i] * s.beta2 + s.less2 * scaled * scaled;
      w[i] = w[i] * s.keep - s.rate * first[i] / (sqrtf(second[i]) / s.root_bias2 + s.epsilon);
    }
    Store(master + at, w);
    Store(m + at, first);
    Store(v + at, second);
    if constexpr (!std::is_same_v<W, float>) {
      if (weights != nullptr) Store(weights + at, w);
    }
  });
}

Scalars ScalarsOf(const AdamWParams& p) {
  const double step = static_cast<double>(p.step);
  return {.keep = static_cast<float>(1 - p.learning_rate * p.weight_decay),
          .rate = static_cast<float>(p.learning_rate / (1 - std::pow(p.beta1, step))),
          .less1 = static_cast<float>(1 - p.beta1),
          .beta2 = static_cast<float>(p.beta2),
          .less2 = static_cast<float>(1 - p.beta2),
          .root_bias2 = static_cast<float>(std::sqrt(1 - std::pow(p.beta2, step))),
          .epsilon = static_cast<float>(p.epsilon),
          .factor = p.grad_factor,
          .clip = p.clip};
}

}  // namespace

int64_t GradientStatisticsWorkspaceBytes(int64_t count) {
  return SumBlocks(count) * static_cast<int64_t>(sizeof(GradientStatistics));
}

template <typename G>
absl::Status ReadGradientStatistics(cudaStream_t stream, int64_t count, const G* gradient, bool add,
                                    GradientStatistics* statistics, void* workspace) {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat(count, " gradients"));
  auto* partial = static_cast<GradientStatistics*>(workspace);
  const int blocks = static_cast<int>(SumBlocks(count));
  const absl::Status status =
      Launch("gradient's squares", &GradientStatisticsKernel<G>, blocks, kThreads, 0, stream, count,
             ByPackets<G>(0, gradient), gradient, partial);
  if (!status.ok()) return status;
  return Launch("gradient's squares, sum", &CombineStatisticsKernel, 1, kThreads, 0, stream, blocks,
                partial, add, statistics);
}

template <typename W, typename G>
absl::Status AdamW(cudaStream_t stream, int64_t count, const AdamWParams& params,
                   const GradientStatistics* statistics, const G* gradient, float* master, float* m,
                   float* v, W* weights) {
  if (count < 0 || params.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("AdamW of ", count, " elements at step ", params.step));
  }
  if (params.clip != 0 && statistics == nullptr) {
    return absl::InvalidArgumentError("AdamW clips by the gradient's statistics, which are null");
  }
  if constexpr (std::is_same_v<W, float>) {
    if (weights != nullptr && weights != master) {
      return absl::InvalidArgumentError("AdamW of f32 weights with another f32 master");
    }
  }
  if (count == 0) return absl::OkStatus();
  const bool wide = ByPackets<float>(0, gradient, master, m, v, weights);
  return Launch("AdamW", &AdamWKernel<W, G>, BlocksForElements(count, wide, kThreads), kThreads, 0,
                stream, count, wide, ScalarsOf(params), statistics, gradient, master, m, v,
                weights);
}

#define STRATA_INSTANTIATE(W, G)                                                                 \
  template absl::Status AdamW<W, G>(cudaStream_t, int64_t, const AdamWParams&,                   \
                                    const GradientStatistics*, const G*, float*, float*, float*, \
                                    W*)
STRATA_INSTANTIATE(float, float);
STRATA_INSTANTIATE(float, BFloat16);
STRATA_INSTANTIATE(BFloat16, float);
STRATA_INSTANTIATE(BFloat16, BFloat16);
#undef STRATA_INSTANTIATE
template absl::Status ReadGradientStatistics<float>(cudaStream_t, int64_t, const float*, bool,
                                                    GradientStatistics*, void*);
template absl::Status ReadGradientStatistics<BFloat16>(cudaStream_t, int64_t, const BFloat16*, bool,
                                                       GradientStatistics*, void*);

}  // namespace strata::kernels::cuda
