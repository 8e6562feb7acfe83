// A block per row, which is looked at twice: for maximum and sum at once (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018), and to become the gradient. In between as
// much of it as has room stays in shared memory.
#include <algorithm>
#include <type_traits>

#include "absl/status/statusor.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBatch = 4;  // packets that a thread has on their way at once

// N logits as they are stored.
template <typename T, int N>
using Packet = std::conditional_t<N == 1, std::remove_const_t<T>, uint4>;

template <typename T, int N>
__device__ __forceinline__ void Unpack(const Packet<T, N>& packet, float (&values)[N]) {
  Load(reinterpret_cast<const std::remove_const_t<T>*>(&packet), values);
}

// Calls body(the first column, packet) for the packets of this thread, which fetch(that column)
// brings.
template <typename T, int N, typename Fetch, typename Body>
__device__ __forceinline__ void ForPackets(int begin, int end, Fetch fetch, Body body) {
  constexpr int kStep = kThreads * N;
  for (int first = begin; first < end; first += kBatch * kStep) {
    Packet<T, N> batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStep < end) batch[i] = fetch(first + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStep < end) body(first + i * kStep, batch[i]);
    }
  }
}

__device__ __forceinline__ float Capped(float logit, float softcap) {
  return softcap == 0 ? logit : softcap * tanhf(logit / softcap);
}

// exp of what is not above 0, to 2^-23 of 1.
__device__ __forceinline__ float Exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
  return y;
}

// Of what a thread has seen: the maximum, and the sum of exp(logit - maximum).
struct Normalizer {
  float most = -INFINITY, sum = 0;

  template <int N>
  __device__ __forceinline__ void Add(const float (&logits)[N]) {
    float above = most;
#pragma unroll
    for (int i = 0; i < N; ++i) above = fmaxf(above, logits[i]);
    // Only such ones so far, which add nothing, and NaNs, which must not vanish.
    if (above == -INFINITY) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += isnan(logits[i]) ? logits[i] : 0.f;
      return;
    }
    sum *= Exp(most - above);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp(logits[i] - above);
    most = above;
  }
};

// The row's maximum and sum of exp(logit - maximum), of the first `columns` capped logits, which
// need not fill packets: the same on every thread. The first `kept` logits are left in `keep`.
template <int N, typename T>
__device__ __forceinline__ Normalizer OverRow(const T* row, int columns, float softcap, int kept,
                                              Packet<T, N>* keep, float* partial) {
  const int end = columns + (Planted(Mistake::kNoBound) ? N : 0);
  const auto fetch = [&](int c) { return *reinterpret_cast<const Packet<T, N>*>(row + c); };
  Normalizer mine;
  ForPackets<T, N>(threadIdx.x * N, end, fetch, [&](int c, const Packet<T, N>& packet) {
    if (c < kept) keep[c / N] = packet;
    float v[N];
    Unpack<T, N>(packet, v);
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = Capped(v[i], softcap);
    }
    if (c + N > end) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = c + i < end ? v[i] : -INFINITY;
    }
    mine.Add(v);
  });
  Normalizer all;
  all.most = OverBlock<kThreads>(mine.most, partial, Maximum());
  const float share = mine.sum == 0 ? 0.f : mine.sum * Exp(mine.most - all.most);
  all.sum = OverBlock<kThreads>(share, partial, Sum());
  return all;
}

// What gradients are multiplied by: *at, unless that is null.
struct Scale {
  float value = 0;
  const double* at = nullptr;
  __device__ float Get() const { return at == nullptr ? value : static_cast<float>(*at); }
};

// The row's logits, of which this thread has left those before column `kept` in `keep`, become
// their gradient, which is 0 from column `used` on. `target` may be outside: of another part.
template <int N, typename T>
__device__ __forceinline__ void Replace(T* row, int columns, int used, float softcap,
                                        const Normalizer& of, int target, Scale scale, int kept,
                                        const Packet<T, N>* keep) {
  const float factor = scale.Get(), each = factor / of.sum;
  const auto fetch = [&](int c) {
    return c < kept ? keep[c / N] : *reinterpret_cast<const Packet<T, N>*>(row + c);
  };
  ForPackets<T, N>(threadIdx.x * N, columns, fetch, [&](int c, const Packet<T, N>& packet) {
    float v[N], slope[N];
    Unpack<T, N>(packet, v);
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v[i] = Capped(v[i], softcap);
        slope[i] = 1.f - v[i] / softcap * (v[i] / softcap);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Exp(v[i] - of.most) * each;
    if (c <= target && target < c + N) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] -= c + i == target ? factor : 0.f;
    }
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] *= slope[i];
    }
    if (c + N > used) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = c + i < used ? v[i] : 0.f;
    }
    Store(row + c, v);
  });
}

// A row that is ignored.
template <int N, typename T>
__device__ __forceinline__ void Clear(T* row, int columns) {
  const float zeros[N] = {};
  for (int c = threadIdx.x * N; c < columns; c += kThreads * N) Store(row + c, zeros);
}

// T is const where the logits stay. `kept`: logits of a row for which there is shared memory.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(int vocab, int kept, float softcap, Scale scale, const int32_t* targets,
                       T* logits, float* losses) {
  extern __shared__ uint4 keep_bytes[];
  auto* const keep = reinterpret_cast<Packet<T, N>*>(keep_bytes);  // its own ones of each thread
  __shared__ float partial[kThreads / 32];
  T* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  const int target = targets[blockIdx.x];
  if (target < 0) {  // the whole block leaves
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if constexpr (!std::is_const_v<T>) Clear<N>(row, vocab);
    return;
  }
  const Normalizer all = OverRow<N>(row, vocab, softcap, kept, keep, partial);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(all.sum) + all.most - Capped(ToF32(row[target]), softcap);
  }
  if constexpr (!std::is_const_v<T>) {
    if (!Planted(Mistake::kInPlaceTooEarly)) __syncthreads();  // the target's logit has been read
    Replace<N>(row, vocab, vocab, softcap, all, target, scale, kept, keep);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyStatisticsKernel(int columns, int used, int first, float softcap,
                                 const int32_t* targets, const T* logits, float* statistics) {
  __shared__ float partial[kThreads / 32];
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * columns;
  const Normalizer all = OverRow<N, const T>(row, used, softcap, 0, nullptr, partial);
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
  Replace<N, T>(row, columns, used, softcap, joined.of, target - first, scale, 0, nullptr);
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

// What a row may have of the shared memory of a multiprocessor, which two blocks share: one reads
// while the other writes.
absl::StatusOr<int64_t> SharedBytesOfBlock() {
  constexpr int kBlocks = 2, kBesides = 2 << 10;  // what is declared, and what CUDA takes of it
  int device = 0, bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  }
  RETURN_IF_ERROR(StatusOf("shared memory of a multiprocessor", error));
  return bytes / kBlocks - kBesides;
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
  int64_t kept = 0;
  if constexpr (!std::is_const_v<T>) {
    ASSIGN_OR_RETURN(const int64_t room, SharedBytesOfBlock());
    kept = std::min<int64_t>(shape.vocab, room / 16 * kPacket<T>);
  }
  const size_t shared = kept * sizeof(T);
  RETURN_IF_ERROR(AllowShared("cross entropy", kernel, shared));
  return Launch("cross entropy", kernel, static_cast<unsigned>(shape.rows), kThreads, shared,
                stream, static_cast<int>(shape.vocab), static_cast<int>(kept), shape.softcap, scale,
                targets, logits, losses);
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
