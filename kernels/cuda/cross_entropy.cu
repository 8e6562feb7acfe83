// A block per row, which is read twice: for maximum and sum at once (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018), and to become the gradient.
#include <type_traits>

#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 512;

__device__ float Capped(float logit, float softcap) {
  return softcap == 0 ? logit : softcap * tanhf(logit / softcap);
}

// Of what a thread has seen: the maximum, and the sum of exp(logit - maximum).
struct Normalizer {
  float most = -INFINITY, sum = 0;

  template <int N>
  __device__ void Add(const float (&logits)[N]) {
    float above = most;
#pragma unroll
    for (int i = 0; i < N; ++i) above = fmaxf(above, logits[i]);
    if (above ==
        -INFINITY) {  // only such ones so far, which add nothing, and NaNs, which must not vanish
#pragma unroll
      for (int i = 0; i < N; ++i) sum += isnan(logits[i]) ? logits[i] : 0.f;
      return;
    }
    sum *= expf(most - above);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += expf(logits[i] - above);
    most = above;
  }
};

// The row's maximum and sum of exp(logit - maximum), of the first `columns` capped logits, which
// need not fill packets: the same on every thread.
template <int N, typename T>
__device__ __forceinline__ Normalizer OverRow(const T* row, int columns, float softcap,
                                              float* partial) {
  const int end = columns + (Planted(Mistake::kNoBound) ? N : 0);
  Normalizer mine;
  for (int c = threadIdx.x * N; c < end; c += kThreads * N) {
    float v[N];
    Load(row + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = c + i < end ? Capped(v[i], softcap) : -INFINITY;
    mine.Add(v);
  }
  Normalizer all;
  all.most = OverBlock<kThreads>(mine.most, partial, Maximum());
  const float share = mine.sum == 0 ? 0.f : mine.sum * expf(mine.most - all.most);
  all.sum = OverBlock<kThreads>(share, partial, Sum());
  return all;
}

// What gradients are multiplied by: *at, unless that is null.
struct Scale {
  float value = 0;
  const double* at = nullptr;
  __device__ float Get() const { return at == nullptr ? value : static_cast<float>(*at); }
};

// The row's logits become their gradient, which is 0 from column `used` on. `target` may be
// outside: of another part.
template <int N, typename T>
__device__ __forceinline__ void Replace(T* row, int columns, int used, float softcap,
                                        const Normalizer& of, int target, Scale scale) {
  const float each = 1.f / of.sum, factor = scale.Get();
  for (int c = threadIdx.x * N; c < columns; c += kThreads * N) {
    float v[N];
    Load(row + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float logit = Capped(v[i], softcap);
      const float part = softcap == 0 ? 0.f : logit / softcap;
      const float probability = expf(logit - of.most) * each;
      const float off = probability - (c + i == target ? 1.f : 0.f);
      v[i] = c + i < used ? off * (1.f - part * part) * factor : 0.f;
    }
    Store(row + c, v);
  }
}

// A row that is ignored.
template <int N, typename T>
__device__ __forceinline__ void Clear(T* row, int columns) {
  const float zeros[N] = {};
  for (int c = threadIdx.x * N; c < columns; c += kThreads * N) Store(row + c, zeros);
}

// T is const where the logits stay.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(int vocab, float softcap, Scale scale, const int32_t* targets, T* logits,
                       float* losses) {
  __shared__ float partial[kThreads / 32];
  T* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  const int target = targets[blockIdx.x];
  if (target < 0) {  // the whole block leaves
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if constexpr (!std::is_const_v<T>) Clear<N>(row, vocab);
    return;
  }
  const Normalizer all = OverRow<N>(row, vocab, softcap, partial);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(all.sum) + all.most - Capped(ToF32(row[target]), softcap);
  }
  if constexpr (!std::is_const_v<T>) {
    if (!Planted(Mistake::kInPlaceTooEarly)) __syncthreads();  // the target's logit has been read
    Replace<N>(row, vocab, vocab, softcap, all, target, scale);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyStatisticsKernel(int columns, int used, int first, float softcap,
                                 const int32_t* targets, const T* logits, float* statistics) {
  __shared__ float partial[kThreads / 32];
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * columns;
  const Normalizer all = OverRow<N>(row, used, softcap, partial);
  if (threadIdx.x != 0) return;
  const int64_t target = static_cast<int64_t>(targets[blockIdx.x]) - first;
  float* of = statistics + static_cast<int64_t>(blockIdx.x) * 3;
  of[0] = all.most;
  of[1] = all.sum;
  of[2] = target >= 0 && target < used ? Capped(ToF32(row[target]), softcap) : 0.f;
}

// Of a whole row, from the statistics of its parts.
struct Joined {
  Normalizer of;
  float target_logit = 0;
};
__device__ __forceinline__ Joined Join(int64_t rows, int parts, int64_t row,
                                       const float* statistics) {
  const int end = parts + (Planted(Mistake::kNoBound) ? 1 : 0);
  const float* part = statistics + row * 3;
  Joined joined;
  for (int p = 0; p < end; ++p) joined.of.most = fmaxf(joined.of.most, part[p * rows * 3]);
  for (int p = 0; p < end; ++p, part += rows * 3) {
    if (part[1] != 0) joined.of.sum += part[1] * expf(part[0] - joined.of.most);
    joined.target_logit += part[2];
  }
  return joined;
}

// Every thread joins the row's parts: they are few.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyFinishKernel(int columns, int used, int first, int parts, float softcap,
                             Scale scale, const int32_t* targets, const float* statistics,
                             T* logits) {
  T* row = logits + static_cast<int64_t>(blockIdx.x) * columns;
  const int target = targets[blockIdx.x];
  if (target < 0) return Clear<N>(row, columns);
  const Joined joined = Join(gridDim.x, parts, blockIdx.x, statistics);
  Replace<N>(row, columns, used, softcap, joined.of, target - first, scale);
}

__global__ void __launch_bounds__(kThreads)
    CrossEntropyPartsLossKernel(int64_t rows, int parts, const int32_t* targets,
                                const float* statistics, double* loss) {
  const auto of_row = [&](int64_t row) {
    if (targets[row] < 0) return 0.f;
    const Joined joined = Join(rows, parts, row, statistics);
    return logf(joined.of.sum) + joined.of.most - joined.target_logit;
  };
  AddTiles<kThreads>(rows, of_row, loss);
}

absl::Status CheckPart(const VocabularyPart& part) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (part.rows < 0 || part.rows > kMost || part.columns < 1 || part.columns > kMost ||
      part.first < 0 || part.first > kMost || part.padding < 0 || part.padding > part.columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross entropy of ", part.rows, " rows of ", part.columns, " logits from ",
                     part.first, " on, the last ", part.padding, " of them padding"));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Run(cudaStream_t stream, const LossShape& shape, Scale scale, const int32_t* targets,
                 T* logits, float* losses) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.rows < 0 || shape.rows > kMost || shape.vocab < 1 || shape.vocab > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross entropy of ", shape.rows, " rows of ", shape.vocab, " logits"));
  }
  if (shape.rows == 0) return absl::OkStatus();
  const auto kernel = ByPackets<T>(shape.vocab, logits) ? &CrossEntropyKernel<T, kPacket<T>>
                                                        : &CrossEntropyKernel<T, 1>;
  return Launch("cross entropy", kernel, static_cast<unsigned>(shape.rows), kThreads, 0, stream,
                static_cast<int>(shape.vocab), shape.softcap, scale, targets, logits, losses);
}

}  // namespace

template <typename T>
absl::Status CrossEntropyForwardBackward(cudaStream_t stream, const LossShape& shape, float scale,
                                         const int32_t* targets, T* logits, float* losses) {
  return Run<T>(stream, shape, {.value = scale}, targets, logits, losses);
}

template <typename T>
absl::Status CrossEntropyForwardBackward(cudaStream_t stream, const LossShape& shape,
                                         const double* scale, const int32_t* targets, T* logits,
                                         float* losses) {
  return Run<T>(stream, shape, {.at = scale}, targets, logits, losses);
}

template <typename T>
absl::Status CrossEntropyForward(cudaStream_t stream, const LossShape& shape,
                                 const int32_t* targets, const T* logits, float* losses) {
  return Run<const T>(stream, shape, {}, targets, logits, losses);
}

template <typename T>
absl::Status CrossEntropyStatistics(cudaStream_t stream, const VocabularyPart& part,
                                    const int32_t* targets, const T* logits, float* statistics) {
  RETURN_IF_ERROR(CheckPart(part));
  if (part.rows == 0) return absl::OkStatus();
  const auto kernel = ByPackets<T>(part.columns, logits)
                          ? &CrossEntropyStatisticsKernel<T, kPacket<T>>
                          : &CrossEntropyStatisticsKernel<T, 1>;
  return Launch("cross entropy's statistics", kernel, static_cast<unsigned>(part.rows), kThreads, 0,
                stream, static_cast<int>(part.columns),
                static_cast<int>(part.columns - part.padding), static_cast<int>(part.first),
                part.softcap, targets, logits, statistics);
}

template <typename T>
absl::Status CrossEntropyFinish(cudaStream_t stream, const VocabularyPart& part, int64_t parts,
                                const double* scale, const int32_t* targets,
                                const float* statistics, T* logits, double* loss) {
  RETURN_IF_ERROR(CheckPart(part));
  constexpr int64_t kMostParts = 65536;
  if (parts < 1 || parts > kMostParts) {
    return absl::InvalidArgumentError(absl::StrCat("cross entropy of ", parts, " parts"));
  }
  if (part.rows == 0) return absl::OkStatus();
  const auto kernel = ByPackets<T>(part.columns, logits) ? &CrossEntropyFinishKernel<T, kPacket<T>>
                                                         : &CrossEntropyFinishKernel<T, 1>;
  RETURN_IF_ERROR(Launch("cross entropy of a part", kernel, static_cast<unsigned>(part.rows),
                         kThreads, 0, stream, static_cast<int>(part.columns),
                         static_cast<int>(part.columns - part.padding),
                         static_cast<int>(part.first), static_cast<int>(parts), part.softcap,
                         Scale{.at = scale}, targets, statistics, logits));
  return Launch("loss of parts", &CrossEntropyPartsLossKernel, 1, kThreads, 0, stream, part.rows,
                static_cast<int>(parts), targets, statistics, loss);
}

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status CrossEntropyForwardBackward<T>(cudaStream_t, const LossShape&, float,      \
                                                       const int32_t*, T*, float*);                \
  template absl::Status CrossEntropyForwardBackward<T>(cudaStream_t, const LossShape&,             \
                                                       const double*, const int32_t*, T*, float*); \
  template absl::Status CrossEntropyForward<T>(cudaStream_t, const LossShape&, const int32_t*,     \
                                               const T*, float*);                                  \
  template absl::Status CrossEntropyStatistics<T>(cudaStream_t, const VocabularyPart&,             \
                                                  const int32_t*, const T*, float*);               \
  template absl::Status CrossEntropyFinish<T>(cudaStream_t, const VocabularyPart&, int64_t,        \
                                              const double*, const int32_t*, const float*, T*,     \
                                              double*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
