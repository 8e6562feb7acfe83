// A row is looked at twice: for maximum and sum at once (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018), and to become the gradient. In between it stays on the
// multiprocessor, as far as it has room there. A block takes rows one after another: where a row's
// logits have become gradients, the next row's arrive, so that memory reads while it writes.
#include <algorithm>

#include "absl/status/statusor.h"
#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

// Of blocks of which a multiprocessor has two, and of those that have it for themselves.
constexpr int kThreads = 512, kAloneThreads = 1024;
constexpr int kGroups = 4;  // in which a row arrives in shared memory
constexpr int kHeld = 5;    // packets that a thread of a block alone has in registers
// Of a block: enough that most begin while others end, few enough that blocks which start late (a
// collective holds their multiprocessor) are not late by much.
constexpr int kRows = 4;

// --- Asynchronous copies of a thread to shared memory.

__device__ __forceinline__ void StartCopy(uint4* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
__device__ __forceinline__ void EndGroup() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups but the last `left` are there.
__device__ __forceinline__ void WaitForGroups(int left) {
  if (Planted(Mistake::kNoCopyWait)) return;
  static_assert(kGroups == 4);
  if (left == 3) asm volatile("cp.async.wait_group 3;" ::: "memory");
  if (left == 2) asm volatile("cp.async.wait_group 2;" ::: "memory");
  if (left == 1) asm volatile("cp.async.wait_group 1;" ::: "memory");
  if (left == 0) asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// Of a row in memory.
template <typename T, int N, int kOfBlock>
__device__ __forceinline__ Normalizer OfRow(const T* row, int columns, float softcap,
                                            Normalizer* partial) {
  const int end = columns + (Planted(Mistake::kNoBound) ? N : 0);
  Normalizer mine;
  ForPackets<T, N, kOfBlock * N>(
      threadIdx.x * N, end, [&](int c) { return *reinterpret_cast<const Packet<T, N>*>(row + c); },
      [&](int c, const Packet<T, N>& packet) { AddPacket<T, N>(packet, c, end, softcap, mine); });
  return OverBlock<kOfBlock>(mine, partial);
}

// Whether this thread's packets have the column.
template <int N, int kOfBlock>
__device__ __forceinline__ bool Owns(int column) {
  return static_cast<unsigned>(column) / N % kOfBlock == threadIdx.x;
}

// A row that is ignored.
template <int N, int kOfBlock, typename T>
__device__ __forceinline__ void Clear(T* row, int columns) {
  const float zeros[N] = {};
  for (int c = threadIdx.x * N; c < columns; c += kOfBlock * N) Store(row + c, zeros);
}

// --- Whole rows.

// A thread's packets of a row, kStep columns apart, while it is worked on: those before column
// `kept` in shared memory, kRegisters behind them in registers, and the rest, if any, in memory.
template <typename T, int N, int kOfBlock, int kRegisters>
struct RowPackets {
  static constexpr int kStep = kOfBlock * N;
  static constexpr bool kArrives = N > 1;  // by itself; single logits are put here as they are read
  static constexpr bool kHasRest = kRegisters == 0;

  Packet<T, N>* keep;  // of the row's first
  int columns, kept;
  Packet<T, N> held[kRegisters + 1];  // the last one never

  static __device__ Packet<T, N> At(const T* row, int c) {
    return *reinterpret_cast<const Packet<T, N>*>(row + c);
  }
  __device__ __forceinline__ int Held(int i) const { return kept + i * kStep + threadIdx.x * N; }
  __device__ __forceinline__ int Rest() const { return kept + threadIdx.x * N; }

  // Calls begin(group), body(place in `keep`, column) of this thread's in the group, end(), group
  // by group.
  template <typename Begin, typename Body, typename End>
  __device__ __forceinline__ void ForGroups(Begin begin, Body body, End end) const {
    const unsigned all = static_cast<unsigned>(kept) / N;
    const unsigned each = (all + kGroups * kOfBlock - 1) / (kGroups * kOfBlock) * kOfBlock;
    Packet<T, N>* place = keep + threadIdx.x;
    unsigned packet = threadIdx.x;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      begin(group);
      const unsigned last = min(all, (group + 1) * each);
#pragma unroll 1
      for (; packet < last; packet += kOfBlock, place += kOfBlock) body(place, packet * N);
      end();
    }
  }

  __device__ __forceinline__ void Start(const T* row) {
    if constexpr (kArrives) {
      ForGroups([](int) {}, [&](uint4* at, unsigned c) { StartCopy(at, row + c); }, EndGroup);
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) {
        if (Held(i) < columns) held[i] = At(row, Held(i));
      }
    }
  }

  // Of logits before column `end`.
  __device__ __forceinline__ Normalizer Normalize(const T* row, int end, float softcap) {
    Normalizer mine;
    if constexpr (kArrives) {
      ForGroups([](int group) { WaitForGroups(kGroups - 1 - group); },
                [&](const uint4* at, unsigned c) { AddPacket<T, N>(*at, c, end, softcap, mine); },
                [] {});
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) {
        if (Held(i) < columns) AddPacket<T, N>(held[i], Held(i), end, softcap, mine);
      }
    }
    if constexpr (kHasRest) {
      ForPackets<T, N, kStep>(
          kArrives ? Rest() : threadIdx.x, end, [&](int c) { return At(row, c); },
          [&](int c, const Packet<T, N>& packet) {
            if (!kArrives && c < kept) keep[c] = packet;
            AddPacket<T, N>(packet, c, end, softcap, mine);
          });
    }
    return mine;
  }

  // become(packet, column, what it becomes) replaces the row; `next`, unless it is null, arrives.
  template <typename Become>
  __device__ __forceinline__ void Replace(T* row, const T* next, Become become) {
    const auto replace = [&](int c, const Packet<T, N>& packet) {
      float v[N];
      become(packet, c, v);
      Store(row + c, v);
    };
    if constexpr (kArrives) {
      ForGroups([](int) {},
                [&](uint4* at, unsigned c) {
                  replace(c, *at);
                  if (next != nullptr) StartCopy(at, next + c);
                },
                EndGroup);
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) {
        if (Held(i) >= columns) break;
        replace(Held(i), held[i]);
        if (next != nullptr) held[i] = At(next, Held(i));
      }
    }
    if constexpr (kHasRest) {
      ForPackets<T, N, kStep>(
          kArrives ? Rest() : threadIdx.x, columns,
          [&](int c) { return !kArrives && c < kept ? keep[c] : At(row, c); }, replace);
    }
  }
};

// `kept`: logits of a row for which there is shared memory.
template <typename T, int N, int kOfBlock, int kRegisters>
__global__ void __launch_bounds__(kOfBlock, kAloneThreads / kOfBlock)
    CrossEntropyKernel(int rows, int vocab, int kept, float softcap, Scale scale,
                       const int32_t* targets, T* logits, float* losses) {
  extern __shared__ uint4 keep_bytes[];
  __shared__ Normalizer partial[2][kOfBlock / 32];  // rows take turns: a barrier is between
  const float factor = scale.Get();
  // The last rows come first: of what a product has written, they are the likeliest in the cache.
  int at = rows - 1 - static_cast<int>(blockIdx.x) * kRows, turn = 0;
  const int last = max(at - kRows + 1, 0);
  const auto row_at = [&](int row) { return logits + static_cast<int64_t>(row) * vocab; };
  RowPackets<T, N, kOfBlock, kRegisters> packets;
  packets.keep = reinterpret_cast<Packet<T, N>*>(keep_bytes);
  packets.columns = vocab;
  packets.kept = kept;
  int target = targets[at];
  if (target >= 0) packets.Start(row_at(at));
  for (;; --at) {
    T* const row = row_at(at);
    const int next_target = at > last ? targets[at - 1] : -1;  // ignored, or none: need not arrive
    const T* const next = next_target >= 0 ? row_at(at - 1) : nullptr;
    if (target >= 0) {
      float logit = 0;  // before anyone overwrites it
      if (!Planted(Mistake::kInPlaceTooEarly)) logit = ToF32(row[target]);
      const int end = vocab + (Planted(Mistake::kNoBound) ? N : 0);
      const Normalizer mine = packets.Normalize(row, end, softcap);
      const Normalizer all = OverBlock<kOfBlock>(mine, partial[turn]);
      if (!Planted(Mistake::kNoBarrierBeforeReuse)) turn = 1 - turn;
      if (Planted(Mistake::kInPlaceTooEarly)) logit = ToF32(row[target]);
      if (threadIdx.x == 0) losses[at] = logf(all.sum) + all.most - Capped(logit, softcap);
      const Gradient gradient(all, vocab, softcap, factor);
      packets.Replace(row, next, [&](const Packet<T, N>& packet, int c, float(&v)[N]) {
        gradient.Of<T>(packet, c, v);
      });
      if (Owns<N, kOfBlock>(target)) row[target] = FromF32<T>(gradient.OfTarget(logit));
    } else {
      if (threadIdx.x == 0) losses[at] = 0;
      Clear<N, kOfBlock>(row, vocab);
      if (next != nullptr) packets.Start(next);
    }
    if (at == last) return;
    target = next_target;
  }
}

// A block per row. Its threads add in the order of the other kernel's: the bits are the same.
template <typename T, int N, int kOfBlock>
__global__ void __launch_bounds__(kOfBlock)
    CrossEntropyLossKernel(int vocab, float softcap, const int32_t* targets, const T* logits,
                           float* losses) {
  __shared__ Normalizer partial[kOfBlock / 32];
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  const int target = targets[blockIdx.x];
  if (target < 0) {  // the whole block leaves
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    return;
  }
  const Normalizer all = OfRow<T, N, kOfBlock>(row, vocab, softcap, partial);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(all.sum) + all.most - Capped(ToF32(row[target]), softcap);
  }
}

// --- Parts of rows.

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyStatisticsKernel(int columns, int used, int first, float softcap,
                                 const int32_t* targets, const T* logits, float* statistics) {
  __shared__ Normalizer partial[kThreads / 32];
  const T* row = logits + static_cast<int64_t>(blockIdx.x) * columns;
  const Normalizer all = OfRow<T, N, kThreads>(row, used, softcap, partial);
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
  if (target < 0) return Clear<N, kThreads>(row, columns);
  const Joined joined = Join(gridDim.x, parts, blockIdx.x, statistics);
  const Gradient gradient(joined.of, used, softcap, scale.Get());
  const int column = target - first;
  const bool has_target = column >= 0 && column < used && Owns<N, kThreads>(column);
  const float logit = has_target ? ToF32(row[column]) : 0.f;
  ForPackets<T, N, kThreads * N>(
      threadIdx.x * N, columns,
      [&](int c) { return *reinterpret_cast<const Packet<T, N>*>(row + c); },
      [&](int c, const Packet<T, N>& packet) {
        float v[N];
        gradient.Of<T>(packet, c, v);
        Store(row + c, v);
      });
  if (has_target) row[column] = FromF32<T>(gradient.OfTarget(logit));
}

__global__ void __launch_bounds__(kThreads)
    CrossEntropyPartsLossKernel(int64_t rows, int parts, const int32_t* targets,
                                const float* statistics, double* loss) {
  const auto of_row = [&](int64_t row) {
    if (targets[row] < 0) return 0.f;
    const Joined joined = Join(rows, parts, row, statistics);
    return logf(joined.of.sum) + joined.of.most - joined.target_logit;
  };
  AddInOrder<kThreads>(rows, of_row, loss);
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

absl::Status CheckShape(const LossShape& shape) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.rows >= 0 && shape.rows <= kMost && shape.vocab >= 1 && shape.vocab <= kMost) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cross entropy of ", shape.rows, " rows of ", shape.vocab, " logits"));
}

// How whole rows are worked on.
struct Way {
  bool packets, alone;  // alone: a block has a multiprocessor for itself
  int64_t kept;         // logits of a row in shared memory
};

// Two blocks a multiprocessor, one of which computes while the other waits, if each has room for a
// row; one if it has, with registers. Longer rows than that are read twice.
template <typename T>
absl::StatusOr<Way> WayOf(const LossShape& shape, const T* logits) {
  constexpr int64_t kBesides = 2 << 10;  // of shared memory: what is declared, what CUDA takes
  constexpr int64_t kBytes = sizeof(T);
  int device = 0, bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  }
  RETURN_IF_ERROR(StatusOf("shared memory of a multiprocessor", error));
  const bool packets = ByPackets<T>(shape.vocab, logits);
  const int64_t of_two = bytes / 2 - kBesides, of_one = bytes - kBesides;
  // Whole packets of all threads, before what is elsewhere.
  const auto kept = [&](int64_t room, int64_t threads) {
    const int64_t step = packets ? threads * kPacket<T> : threads;
    return room / kBytes >= shape.vocab ? shape.vocab : room / kBytes / step * step;
  };
  const int64_t alone = kept(of_one, kAloneThreads);
  if (packets && shape.vocab * kBytes > of_two &&
      shape.vocab <= alone + kHeld * kAloneThreads * kPacket<T>) {
    return Way{packets, true, alone};
  }
  return Way{packets, false, kept(of_two, kThreads)};
}

template <typename T>
absl::Status Run(cudaStream_t stream, const LossShape& shape, Scale scale, const int32_t* targets,
                 T* logits, float* losses) {
  RETURN_IF_ERROR(CheckShape(shape));
  if (shape.rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Way way, WayOf(shape, logits));
  const auto kernel = way.alone     ? &CrossEntropyKernel<T, kPacket<T>, kAloneThreads, kHeld>
                      : way.packets ? &CrossEntropyKernel<T, kPacket<T>, kThreads, 0>
                                    : &CrossEntropyKernel<T, 1, kThreads, 0>;
  const size_t shared = way.kept * sizeof(T);
  RETURN_IF_ERROR(AllowShared("cross entropy", kernel, shared));
  return Launch("cross entropy", kernel, BlocksFor(shape.rows, kRows),
                way.alone ? kAloneThreads : kThreads, shared, stream, static_cast<int>(shape.rows),
                static_cast<int>(shape.vocab), static_cast<int>(way.kept), shape.softcap, scale,
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
  RETURN_IF_ERROR(CheckShape(shape));
  if (shape.rows == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Way way, WayOf(shape, logits));
  const auto kernel = way.alone     ? &CrossEntropyLossKernel<T, kPacket<T>, kAloneThreads>
                      : way.packets ? &CrossEntropyLossKernel<T, kPacket<T>, kThreads>
                                    : &CrossEntropyLossKernel<T, 1, kThreads>;
  return Launch("cross entropy's loss", kernel, static_cast<unsigned>(shape.rows),
                way.alone ? kAloneThreads : kThreads, 0, stream, static_cast<int>(shape.vocab),
                shape.softcap, targets, logits, losses);
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
