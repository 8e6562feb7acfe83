// Attention's gradient on tensor cores (Dao 2023, algorithm 2, without sums over blocks): a warp
// owns 16 or 32 rows and goes over tiles of others. For dk and dv it owns keys and values and goes over
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
  // A warp has kAtoms times 16 rows. The more it has, the less often it reads others; its sums and
  // the scores by the others of a tile fill the registers.
  static constexpr int kAtoms = kHead <= (kQueries ? 128 : 64) ? 2 : 1;
  static constexpr int kWarps = 4;                       // more blocks wait less at barriers
  static constexpr int kOther = kHead == 256 ? 16 : 32;  // rows of a tile
  static constexpr int kThreads = 32 * kWarps, kWarpRows = 16 * kAtoms, kOwn = kWarps * kWarpRows;

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

// Calls body(atom, columns of 8, half) for each pair of numbers that a lane has of scores.
template <int kAtoms, int kColumns, typename Body>
__device__ __forceinline__ void ForEach(const Body& body) {
#pragma unroll
  for (int i = 0; i < kAtoms * kColumns / 4; ++i) {
    body(i / (kColumns / 4), i / 2 % (kColumns / 8), i % 2);
  }
}

template <typename T, int kHead, Of kOf>
__global__ void __launch_bounds__(Sizes<kHead, kOf>::kThreads)
    TensorBackwardKernel(const AttentionProblem<T> problem) {
  using S = Sizes<kHead, kOf>;
  constexpr int kAtoms = S::kAtoms, kOwn = S::kOwn, kOther = S::kOther, kThreads = S::kThreads;
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

  // A warp's rows, a lane's first, and their lse (in units of ln 2) and delta where they are queries.
  const int warp_own = own0 + warp * S::kWarpRows, warp_end = warp_own + S::kWarpRows;
  const int lane_own = warp_own + lane / 4;
  float own_lse[kAtoms][2] = {}, own_delta[kAtoms][2] = {};
  if constexpr (kOfKeys) {
    CopyBoth<kHead, kOwn, kThreads>(KeyRows(problem, sequence, own0, kv_head), size, own);
  } else {
    CopyBoth<kHead, kOwn, kThreads>(QueryRows(problem, sequence, own0, head), size, own);
#pragma unroll
    for (int i = 0; i < 2 * kAtoms; ++i) {
      const int row = lane_own + 8 * i;
      if (row >= own_end) continue;
      own_lse[i / 2][i % 2] = problem.lse[problem.LseAt(sequence, row, head)] * kLog2E;
      own_delta[i / 2][i % 2] = problem.delta[problem.LseAt(sequence, row, head)];
    }
  }
  if (count > 0) copy_others(0);

  float sums[kAtoms][kByScores ? kHead / 8 : 1][4] = {};         // dk or dq
  float value_sums[kAtoms][kByWeights ? kHead / 8 : 1][4] = {};  // dv
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
    // Weights, and the gradients of scores, to which delta is added first.
    const float2* of_columns =
        reinterpret_cast<const float2*>(shared + 2 * S::kOwnBytes + i % 2 * S::kStageBytes +
                                        2 * S::kOtherBytes) +
        lane % 4;
    float p[kAtoms][kOther / 8][4] = {}, ds[kAtoms][kOther / 8][4];
    MultiplyByRows<T, kHead, kAtoms, kOther>(own, warp * S::kWarpRows, other, p);
    if constexpr (kByScores) {
      ForEach<kAtoms, kOther>([&](int a, int n, int half) {
        const float2 delta = kOfKeys ? of_columns[kOther / 2 + n * 4]
                                     : make_float2(own_delta[a][half], own_delta[a][half]);
        ds[a][n][2 * half] = -delta.x;
        ds[a][n][2 * half + 1] = -delta.y;
      });
      MultiplyByRows<T, kHead, kAtoms, kOther>(own_values, warp * S::kWarpRows, other_values, ds);
    }
    if (levels.capped) {
      ForEach<kAtoms, kOther>([&](int a, int n, int half) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          p[a][n][e] = levels(p[a][n][e]);
          if constexpr (kByScores) ds[a][n][e] *= levels.Slope(p[a][n][e]);
        }
      });
    }
    ForEach<kAtoms, kOther>([&](int a, int n, int half) {
      float2 lse = make_float2(own_lse[a][half], own_lse[a][half]);
      if constexpr (kOfKeys) {
        lse = of_columns[n * 4];
        lse = make_float2(lse.x * kLog2E, lse.y * kLog2E);
      }
      p[a][n][2 * half] = Exp2(p[a][n][2 * half] * levels.factor - lse.x);
      p[a][n][2 * half + 1] = Exp2(p[a][n][2 * half + 1] * levels.factor - lse.y);
    });
    if (kOfKeys ? !problem.AllSee(sequence, at, at_end, warp_own, warp_end)
                : !problem.AllSee(sequence, warp_own, warp_end, at, at_end)) {
      constexpr int kOwnRows = 2 * kAtoms, kColumns = kOther / 4;  // of a lane
      const auto column_at = [&](int c) { return at + c / 2 * 8 + lane % 4 * 2 + c % 2; };
#pragma unroll
      for (int r = 0; r < (kOfKeys ? kColumns : kOwnRows); ++r) {
        const int row = kOfKeys ? column_at(r) : lane_own + 8 * r;
        const int lowest = problem.FirstKey(sequence, row), highest = problem.LastKey(row);
#pragma unroll
        for (int k = 0; k < (kOfKeys ? kOwnRows : kColumns); ++k) {
          const int key = kOfKeys ? lane_own + 8 * k : column_at(k);
          const int o = kOfKeys ? k : r, c = kOfKeys ? r : k;
          float& weight = p[o / 2][c / 2][o % 2 * 2 + c % 2];
          if (key < lowest || key > highest) weight = 0;
        }
      }
    }
    if constexpr (kByScores) {
      ForEach<kAtoms, kOther>([&](int a, int n, int half) {
        ds[a][n][2 * half] *= p[a][n][2 * half];
        ds[a][n][2 * half + 1] *= p[a][n][2 * half + 1];
      });
    }
    if constexpr (kByWeights) AddByWeights<T, kHead, kAtoms, kOther>(p, other_values, value_sums);
    if constexpr (kByScores) AddByWeights<T, kHead, kAtoms, kOther>(ds, other, sums);
  }

  // Sums take the place of a warp's own rows, once all copies are there.
  WaitForCopies();
  __syncthreads();
  const auto write = [&](const auto& of_warp, float factor, bool adds, char* by, T* to,
                         int64_t stride) {
#pragma unroll
    for (int a = 0; a < kAtoms; ++a) {
      const int first = 16 * a + lane / 4;
      SumsToTile<T, kHead>(of_warp[a], by, warp * S::kWarpRows + 16 * a,
                           [&](int half, int column, float value) {
                             value *= factor;
                             const int row = first + half * 8;
                             if (adds && warp_own + row < own_end && column < size) {
                               value += ToF32(to[row * stride + column]);
                             }
                             return value;
                           });
    }
    __syncwarp();
    TileToRows<kHead, S::kWarpRows>(by, warp * S::kWarpRows, own_end - warp_own, size, to, stride);
  };
  if constexpr (kOfKeys) {
    const int64_t to = problem.KeyAt(sequence, warp_own, kv_head);
    if constexpr (kByScores) {
      write(sums, problem.scale, problem.adds_dkv, shared, problem.dk + to, problem.kv_row);
    }
    if constexpr (kByWeights) {
      write(value_sums, 1, problem.adds_dkv, shared + S::kOwnBytes, problem.dv + to,
            problem.kv_row);
    }
  } else {
    write(sums, problem.scale, problem.adds_dq, shared,
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
