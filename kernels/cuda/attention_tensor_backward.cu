// Attention's gradient on tensor cores (Dao 2023, algorithm 2, without sums over blocks): a warp
// owns 16 rows and goes over tiles of others. For dk and dv it owns keys and values and goes over
// queries and their dout; for dq it is the other way round. Scores are made anew for each: two
// products of seven, for sums that are the same in every run.
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace strata::kernels::cuda {
namespace {

// What a kernel writes. dk and dv of large heads are not one kernel's: their sums would not fit
// the registers.
enum class Of { kQueries, kKeys, kValues, kKeysAndValues };

// Shared memory stays below the 99 KiB of smaller devices.
template <int kHead, Of kOf>
struct Sizes {
  static constexpr bool kQueries = kOf == Of::kQueries;
  // More share what a block copies; fewer where registers then let more blocks in.
  static constexpr int kWarps = kHead > 128 || kHead == (kQueries ? 96 : 64) ? 4 : 8;
  static constexpr int kOther = kHead == 256 ? 16 : 32;  // rows of a tile
  static constexpr int kThreads = 32 * kWarps, kOwn = 16 * kWarps;

  static constexpr unsigned kOwnBytes = Tile<kHead>::kRowBytes * kOwn;
  static constexpr unsigned kOtherBytes = Tile<kHead>::kRowBytes * kOther;
  static constexpr unsigned kRowBytes = kQueries ? 0 : kOther * sizeof(float);  // of lse, of delta
  static constexpr unsigned kStageBytes = 2 * kOtherBytes + 2 * kRowBytes;
  static constexpr unsigned kBytes = 2 * kOwnBytes + 2 * kStageBytes;
};

// Rows of q and dout, or of k and v, as far as a sequence goes.
template <typename T>
struct Rows {
  const T *first, *second;
  int64_t first_stride, second_stride;
  int count;
};

template <typename T>
__device__ Rows<T> QueryRows(const AttentionProblem<T>& problem, int sequence, int row, int head) {
  return {problem.q + problem.QueryAt(sequence, row, head),
          problem.dout + problem.OutAt(sequence, row, head), problem.q_row, problem.out_row(),
          problem.rows - row};
}
template <typename T>
__device__ Rows<T> KeyRows(const AttentionProblem<T>& problem, int sequence, int key, int kv_head) {
  const int64_t at = problem.KeyAt(sequence, key, kv_head);
  return {problem.k + at, problem.v + at, problem.kv_row, problem.kv_row, problem.keys - key};
}

// To two tiles, one behind the other.
template <int kHead, int kRows, int kThreads, typename T>
__device__ __forceinline__ void CopyBoth(const Rows<T>& rows, int size, unsigned to) {
  CopyRows<kHead, kRows, kThreads>(rows.first, rows.first_stride, rows.count, size, to);
  CopyRows<kHead, kRows, kThreads>(rows.second, rows.second_stride, rows.count, size,
                                   to + Tile<kHead>::kRowBytes * kRows);
}

template <typename T, int kHead, Of kOf>
__global__ void __launch_bounds__(Sizes<kHead, kOf>::kThreads)
    TensorBackwardKernel(const AttentionProblem<T> problem) {
  using S = Sizes<kHead, kOf>;
  constexpr int kOwn = S::kOwn, kOther = S::kOther, kThreads = S::kThreads;
  constexpr bool kOfKeys = !S::kQueries;
  constexpr bool kByScores = kOf != Of::kValues;  // dk or dq
  constexpr bool kByWeights = kOf == Of::kValues || kOf == Of::kKeysAndValues;
  extern __shared__ __align__(128) char shared[];
  const unsigned own = SharedAddress(shared), own_values = own + S::kOwnBytes,
                 stages = own_values + S::kOwnBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const BlockPlace place(kOfKeys ? problem.kv_heads : problem.heads, kOfKeys);
  const int sequence = place.sequence, size = problem.head_size, group = problem.group();
  const int own0 = place.tile * kOwn,
            own_end = min(own0 + kOwn, kOfKeys ? problem.keys : problem.rows);
  const int kv_head = kOfKeys ? place.head : place.head / group;
  const Levels levels(problem);

  // Others that any of a block's rows sees or is seen by; of a block of keys those of all heads.
  int begin, end, head = place.head, heads = 1;
  if constexpr (kOfKeys) {
    begin = problem.FirstRow(own0) / kOther * kOther;
    end = problem.EndOfRows(sequence, own_end);
    head = kv_head * group;
    heads = group;
  } else {
    begin = problem.FirstKey(sequence, own0) / kOther * kOther;
    end = problem.LastKey(own_end - 1) + 1;
  }

  // A tile to its stage; next time the one behind it.
  const int count = max(0, (end - begin + kOther - 1) / kOther) * heads;
  int next = begin, next_head = head;
  const auto copy_others = [&](int i) {
    const unsigned to = stages + i % 2 * S::kStageBytes;
    const int at = next, of_head = next_head;
    next += kOther;
    if (next >= end) {
      next = begin;
      ++next_head;
    }
    if constexpr (kOfKeys) {
      CopyBoth<kHead, kOther, kThreads>(QueryRows(problem, sequence, at, of_head), size, to);
      if (threadIdx.x < 2 * kOther) {  // their lse, then their delta
        const int row = at + threadIdx.x % kOther;
        const float* from = threadIdx.x < kOther ? problem.lse : problem.delta;
        CopyFourBytes(to + 2 * S::kOtherBytes + threadIdx.x * 4,
                      from + problem.LseAt(sequence, row, of_head), row < problem.rows);
      }
    } else {
      CopyBoth<kHead, kOther, kThreads>(KeyRows(problem, sequence, at, kv_head), size, to);
    }
  };

  // A warp's rows, and a lane's lse (in units of ln 2) and delta where they are queries.
  const int warp_own = own0 + warp * 16, warp_end = warp_own + 16;
  float own_lse[2] = {}, own_delta[2] = {};
  if constexpr (kOfKeys) {
    CopyBoth<kHead, kOwn, kThreads>(KeyRows(problem, sequence, own0, kv_head), size, own);
  } else {
    CopyBoth<kHead, kOwn, kThreads>(QueryRows(problem, sequence, own0, head), size, own);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_own + lane / 4 + 8 * half;
      if (row >= own_end) continue;
      own_lse[half] = problem.lse[problem.LseAt(sequence, row, head)] * kLog2E;
      own_delta[half] = problem.delta[problem.LseAt(sequence, row, head)];
    }
  }
  if (count > 0) copy_others(0);

  float sums[1][kByScores ? kHead / 8 : 1][4] = {};         // dk or dq
  float value_sums[1][kByWeights ? kHead / 8 : 1][4] = {};  // dv
  for (int i = 0, at = begin; i < count; ++i, at = at + kOther < end ? at + kOther : begin) {
    WaitForCopies();
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    if (i + 1 < count) copy_others(i + 1);
    const unsigned other = stages + i % 2 * S::kStageBytes, other_values = other + S::kOtherBytes;
    const int at_end = at + kOther;
    if (kOfKeys ? !problem.AnySees(sequence, at, at_end, warp_own, warp_end)
                : !problem.AnySees(sequence, warp_own, warp_end, at, at_end)) {
      continue;
    }
    float p[1][kOther / 8][4] = {}, ds[1][kOther / 8][4] = {};
    MultiplyByRows<T, kHead, 1, kOther>(own, warp * 16, other, p);
    if constexpr (kByScores) {
      MultiplyByRows<T, kHead, 1, kOther>(own_values, warp * 16, other_values, ds);
    }

    const float* of_columns = reinterpret_cast<const float*>(
        shared + 2 * S::kOwnBytes + i % 2 * S::kStageBytes + 2 * S::kOtherBytes);
    const bool masked = kOfKeys ? !problem.AllSee(sequence, at, at_end, warp_own, warp_end)
                                : !problem.AllSee(sequence, warp_own, warp_end, at, at_end);
#pragma unroll
    for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int own_row = warp_own + lane / 4 + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
        const float lse = kOfKeys ? of_columns[column] * kLog2E : own_lse[e / 2];
        const float level = levels(p[0][n][e]);
        float weight = Exp2(level * levels.factor - lse);
        if (masked) {
          const int row = kOfKeys ? at + column : own_row, key = kOfKeys ? own_row : at + column;
          if (!problem.AllSee(sequence, row, row + 1, key, key + 1)) weight = 0;
        }
        p[0][n][e] = weight;
        if constexpr (kByScores) {
          const float delta = kOfKeys ? of_columns[kOther + column] : own_delta[e / 2];
          ds[0][n][e] = weight * (ds[0][n][e] - delta) * levels.Slope(level);
        }
      }
    }
    if constexpr (kByScores) AddByWeights<T, kHead, 1, kOther>(ds, other, sums);
    if constexpr (kByWeights) AddByWeights<T, kHead, 1, kOther>(p, other_values, value_sums);
  }

  // Sums take the place of a warp's own rows, once all copies are there.
  WaitForCopies();
  __syncthreads();
  const auto write = [&](const auto& of_warp, float factor, bool adds, char* by, T* to,
                         int64_t stride) {
    SumsToTile<T, kHead>(of_warp, by, warp * 16, [&](int half, int column, float value) {
      value *= factor;
      const int row = lane / 4 + half * 8;
      if (adds && warp_own + row < own_end && column < size) {
        value += ToF32(to[row * stride + column]);
      }
      return value;
    });
    __syncwarp();
    TileToRows<kHead, 16>(by, warp * 16, own_end - warp_own, size, to, stride);
  };
  if constexpr (kOfKeys) {
    const int64_t to = problem.KeyAt(sequence, warp_own, kv_head);
    if constexpr (kByScores) {
      write(sums[0], problem.scale, problem.adds_dkv, shared, problem.dk + to, problem.kv_row);
    }
    if constexpr (kByWeights) {
      write(value_sums[0], 1, problem.adds_dkv, shared + S::kOwnBytes, problem.dv + to,
            problem.kv_row);
    }
  } else {
    write(sums[0], problem.scale, problem.adds_dq, shared,
          problem.dq + problem.QueryAt(sequence, warp_own, head), problem.q_row);
  }
}

template <typename T, int kHead, Of kOf>
absl::Status Backward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  using S = Sizes<kHead, kOf>;
  const int heads = S::kQueries ? problem.heads : problem.kv_heads;
  const int rows = S::kQueries ? problem.rows : problem.keys;
  return LaunchLarge("attention's gradient", &TensorBackwardKernel<T, kHead, kOf>,
                     GridOf(heads, rows, S::kOwn, problem.batch), S::kThreads, S::kBytes, stream,
                     problem);
}

template <typename T, int kHead>
absl::Status Backward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  const absl::Status queries = Backward<T, kHead, Of::kQueries>(stream, problem);
  if (!queries.ok()) return queries;
  if constexpr (kHead <= 128) {
    return Backward<T, kHead, Of::kKeysAndValues>(stream, problem);
  } else {
    const absl::Status keys = Backward<T, kHead, Of::kKeys>(stream, problem);
    return keys.ok() ? Backward<T, kHead, Of::kValues>(stream, problem) : keys;
  }
}

}  // namespace

template <typename T>
absl::Status TensorBackward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.head_size <= 64) return Backward<T, 64>(stream, problem);
  if (problem.head_size <= 96) return Backward<T, 96>(stream, problem);
  if (problem.head_size <= 128) return Backward<T, 128>(stream, problem);
  if (problem.head_size <= 192) return Backward<T, 192>(stream, problem);
  return Backward<T, 256>(stream, problem);
}

template absl::Status TensorBackward(cudaStream_t, const AttentionProblem<BFloat16>&);
template absl::Status TensorBackward(cudaStream_t, const AttentionProblem<Float16>&);

}  // namespace strata::kernels::cuda
