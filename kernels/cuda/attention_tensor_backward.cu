// Attention's gradient on tensor cores (Dao 2023, algorithm 2, without sums over blocks): for dq
// warps own queries and go over tiles of keys and values, for dk and dv they own keys and values
// and go over tiles of queries and their dout. Scores are made anew for each: two products of
// seven, for sums that are the same in every run.
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace strata::kernels::cuda {
namespace {

// Shared memory stays below the 99 KiB of smaller devices, and warps of a block are few: more
// blocks wait less at barriers. A warp has kAtoms times 16 rows. The more it has, the less often it
// reads others; its sums and the scores by the others of a tile fill the registers.
template <int kHead>
struct Sizes {
  static constexpr int kThreads = 128;
  static constexpr int kAtoms = kHead <= 128 ? 2 : 1;
  static constexpr int kOther = kHead == 256 ? 16 : 32;  // rows of a tile
  static constexpr unsigned kOtherBytes = Tile<kHead>::kRowBytes * kOther;
};
template <int kHead>
struct QuerySizes : Sizes<kHead> {
  static constexpr int kWarpRows = 16 * Sizes<kHead>::kAtoms, kOwn = 4 * kWarpRows;
  static constexpr unsigned kOwnBytes = Tile<kHead>::kRowBytes * kOwn;
  static constexpr unsigned kStageBytes = 2 * Sizes<kHead>::kOtherBytes;
  static constexpr unsigned kRowsAt = 2 * (kOwnBytes + kStageBytes);  // lse, then delta
  static constexpr unsigned kBytes = kRowsAt + 2 * kOwn * sizeof(float);
};
// Two warps share keys. One multiplies them by queries and sums dv by the weights, which it gives
// to the other; that one multiplies values by dout and sums dk.
template <int kHead>
struct KeySizes : Sizes<kHead> {
  using S = Sizes<kHead>;
  static constexpr int kPairKeys = 16 * S::kAtoms, kOwn = 2 * kPairKeys;
  static constexpr unsigned kOwnBytes = Tile<kHead>::kRowBytes * kOwn;
  static constexpr unsigned kStageBytes = 2 * (S::kOtherBytes + S::kOther * sizeof(float));
  static constexpr int kGiven = S::kAtoms * S::kOther / 4;  // registers of a lane
  static constexpr unsigned kGivenBytes = 32 * 4 * kGiven;
  static constexpr unsigned kBytes = 2 * (kOwnBytes + kStageBytes + kGivenBytes);
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

// The same of tiles of kRows rows, one after the other.
template <typename T, int kHead, int kRows, int kThreads>
class TileCopier {
 public:
  __device__ void StartAt(const Rows<T>& rows) {
    left_ = rows;
    left_.first = ThreadPlace<kHead>(rows.first, rows.first_stride);
    left_.second = ThreadPlace<kHead>(rows.second, rows.second_stride);
  }
  __device__ __forceinline__ void CopyNext(int size, unsigned to) {
    CopyFromPlace<kHead, kRows, kThreads>(left_.first, left_.first_stride, left_.count, size, to);
    CopyFromPlace<kHead, kRows, kThreads>(left_.second, left_.second_stride, left_.count, size,
                                          to + Tile<kHead>::kRowBytes * kRows);
    left_.first += kRows * left_.first_stride;
    left_.second += kRows * left_.second_stride;
    left_.count -= kRows;
  }

 private:
  Rows<T> left_;  // from the thread's place on
};

// Calls body(atom, columns of 8, half) for each pair of neighbours that a lane has of products.
template <int kAtoms, int kColumns, typename Body>
__device__ __forceinline__ void ForPairs(const Body& body) {
#pragma unroll
  for (int i = 0; i < kAtoms * kColumns / 4; ++i) {
    body(i / (kColumns / 4), i / 2 % (kColumns / 8), i % 2);
  }
}

// Levels of what is not seen become those of weight 0; a lane's own rows are every eighth from
// lane_own on, its others pairs of every eight from lane_other on.
template <bool kOfKeys, int kAtoms, int kOther, typename T>
__device__ __forceinline__ void MaskLevels(const AttentionProblem<T>& problem, int sequence,
                                           int lane_own, int lane_other,
                                           float (&levels)[kAtoms][kOther / 8][4]) {
  constexpr int kOwn = 2 * kAtoms, kOthers = kOther / 4;
#pragma unroll
  for (int r = 0; r < (kOfKeys ? kOthers : kOwn); ++r) {
    const int row = kOfKeys ? lane_other + r / 2 * 8 + r % 2 : lane_own + 8 * r;
    const int first = problem.FirstKey(sequence, row), last = problem.LastKey(row);
#pragma unroll
    for (int k = 0; k < (kOfKeys ? kOwn : kOthers); ++k) {
      const int key = kOfKeys ? lane_own + 8 * k : lane_other + k / 2 * 8 + k % 2;
      const int own = kOfKeys ? k : r, other = kOfKeys ? r : k;
      float& level = levels[own / 2][other / 2][own % 2 * 2 + other % 2];
      if (key < first || key > last) level = -INFINITY;
    }
  }
}

// A warp's sums times `factor` to the first `rows` of `size` elements, by way of a tile's rows from
// tile_row on.
template <int kHead, int kAtoms, typename T>
__device__ __forceinline__ void WriteSums(const float (&sums)[kAtoms][kHead / 8][4], float factor,
                                          bool adds, char* tile, int tile_row, int rows, int size,
                                          T* to, int64_t stride) {
#pragma unroll
  for (int a = 0; a < kAtoms; ++a) {
    const int lane_row = 16 * a + threadIdx.x % 32 / 4;
    SumsToTile<T, kHead>(sums[a], tile, tile_row + 16 * a, [&](int half, int column, float value) {
      value *= factor;
      const int row = lane_row + 8 * half;
      if (adds && row < rows && column < size) value += ToF32(to[row * stride + column]);
      return value;
    });
  }
  __syncwarp();
  TileToRows<kHead, 16 * kAtoms>(tile, tile_row, rows, size, to, stride);
}

// dq.
template <typename T, int kHead>
__global__ void __launch_bounds__(QuerySizes<kHead>::kThreads, kHead == 64 ? 3 : 2)
    TensorQueriesBackwardKernel(const AttentionProblem<T> problem) {
  using S = QuerySizes<kHead>;
  constexpr int kAtoms = S::kAtoms, kOwn = S::kOwn, kOther = S::kOther, kThreads = S::kThreads;
  extern __shared__ __align__(128) char shared[];
  const unsigned q = SharedAddress(shared), dout = q + S::kOwnBytes, stages = dout + S::kOwnBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const BlockPlace place(problem.heads, false);
  const int sequence = place.sequence, size = problem.head_size;
  const int head = place.head, kv_head = head / problem.group();
  const int row0 = place.tile * kOwn, row_end = min(row0 + kOwn, problem.rows);
  const Levels levels(problem);

  // Keys that any of the block's rows sees.
  const int begin = problem.FirstKey(sequence, row0) / kOther * kOther;
  const int end = problem.LastKey(row_end - 1) + 1;
  TileCopier<T, kHead, kOther, kThreads> copier;
  copier.StartAt(KeyRows(problem, sequence, begin, kv_head));
  CopyBoth<kHead, kOwn, kThreads>(QueryRows(problem, sequence, row0, head), size, q);
  if (threadIdx.x < kOwn) {
    const int64_t at = problem.LseAt(sequence, row0 + threadIdx.x, head);
    const unsigned to = q + S::kRowsAt + threadIdx.x * 4;
    const bool there = row0 + static_cast<int>(threadIdx.x) < row_end;
    CopyFourBytes(to, problem.lse + at, there);
    CopyFourBytes(to + kOwn * 4, problem.delta + at, there);
  }
  if (begin < end) copier.CopyNext(size, stages);

  // A warp's rows, and a lane's first. Registers are too few to keep their lse and delta.
  const int warp_row = row0 + warp * S::kWarpRows, warp_end = warp_row + S::kWarpRows;
  const int lane_row = warp_row + lane / 4;
  const float* const lse =
      reinterpret_cast<const float*>(shared + S::kRowsAt) + warp * S::kWarpRows + lane / 4;
  const float* const delta = lse + kOwn;

  float sums[kAtoms][kHead / 8][4] = {};
  for (int key = begin, stage = 0; key < end; key += kOther, stage ^= 1) {
    WaitForCopies();
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    if (key + kOther < end) copier.CopyNext(size, stages + (stage ^ 1) * S::kStageBytes);
    const unsigned k = stages + stage * S::kStageBytes, v = k + S::kOtherBytes;
    const int key_end = key + kOther;
    if (!problem.AnySees(sequence, warp_row, warp_end, key, key_end)) continue;

    // Scores become weights; their gradients begin with what is taken from them.
    float p[kAtoms][kOther / 8][4] = {}, ds[kAtoms][kOther / 8][4];
    MultiplyByRows<T, kHead, kAtoms, kOther>(q, warp * S::kWarpRows, k, p);
    ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
      ds[a][n][2 * half] = ds[a][n][2 * half + 1] = -delta[16 * a + 8 * half];
    });
    MultiplyByRows<T, kHead, kAtoms, kOther>(dout, warp * S::kWarpRows, v, ds);
    if (levels.capped) {
      ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          p[a][n][e] = levels(p[a][n][e]);
          ds[a][n][e] *= levels.Slope(p[a][n][e]);
        }
      });
    }
    if (!problem.AllSee(sequence, warp_row, warp_end, key, key_end)) {
      MaskLevels<false, kAtoms, kOther>(problem, sequence, lane_row, key + lane % 4 * 2, p);
    }
    ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        ds[a][n][e] *= Exp2(p[a][n][e] * levels.factor - lse[16 * a + 8 * half] * kLog2E);
      }
    });
    AddByWeights<T, kHead, kAtoms, kOther>(ds, k, sums);
  }

  // Sums take the place of a warp's own rows, once all copies are there.
  WaitForCopies();
  __syncthreads();
  WriteSums<kHead, kAtoms>(sums, problem.scale, problem.adds_dq, shared, warp * S::kWarpRows,
                           row_end - warp_row, size,
                           problem.dq + problem.QueryAt(sequence, warp_row, head), problem.q_row);
}

// What one warp of a pair leaves for the other.
__device__ __forceinline__ void ArriveAtPair(int pair) {
  if (Planted(Mistake::kNoBarrierBeforeRead)) return;
  asm volatile("bar.arrive %0, 64;" ::"r"(1 + pair) : "memory");
}
__device__ __forceinline__ void WaitForPair(int pair) {
  if (Planted(Mistake::kNoBarrierBeforeRead)) return;
  asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory");
}

// dk and dv.
template <typename T, int kHead>
__global__ void __launch_bounds__(KeySizes<kHead>::kThreads)
    TensorKeysBackwardKernel(const AttentionProblem<T> problem) {
  using S = KeySizes<kHead>;
  constexpr int kAtoms = S::kAtoms, kOwn = S::kOwn, kOther = S::kOther, kThreads = S::kThreads;
  extern __shared__ __align__(128) char shared[];
  const unsigned keys = SharedAddress(shared), values = keys + S::kOwnBytes,
                 stages = values + S::kOwnBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = warp / 2;
  const bool of_values = warp % 2 == 0;  // sums dv
  const BlockPlace place(problem.kv_heads * problem.parts, true);
  const int sequence = place.sequence, size = problem.head_size, group = problem.group();
  const int kv_head = place.head / problem.parts, part = place.head % problem.parts;
  const int key0 = place.tile * kOwn, key_end = min(key0 + kOwn, problem.keys);
  const Levels levels(problem);

  // Rows that see any of the block's keys, of each of the part's query heads.
  const int begin = problem.FirstRow(key0) / kOther * kOther;
  const int end = problem.EndOfRows(sequence, key_end);
  const int head_begin = kv_head * group + part * group / problem.parts;
  const int head_end = kv_head * group + (part + 1) * group / problem.parts;
  const int count = max(0, (end - begin + kOther - 1) / kOther) * (head_end - head_begin);

  // A tile to its stage, with its rows' lse, then their delta; next time the one behind it.
  TileCopier<T, kHead, kOther, kThreads> copier;
  int next = begin, next_head = head_begin;
  const float* of_row = nullptr;
  const auto start_head = [&] {
    const int row = begin + threadIdx.x % kOther;
    next = begin;
    copier.StartAt(QueryRows(problem, sequence, begin, next_head));
    of_row = (threadIdx.x < kOther ? problem.lse : problem.delta) +
             problem.LseAt(sequence, row, next_head);
  };
  const auto copy_queries = [&](int i) {
    const unsigned to = stages + i % 2 * S::kStageBytes;
    copier.CopyNext(size, to);
    if (threadIdx.x < 2 * kOther) {
      const bool there = next + static_cast<int>(threadIdx.x) % kOther < problem.rows;
      CopyFourBytes(to + 2 * S::kOtherBytes + threadIdx.x * 4, of_row, there);
    }
    next += kOther;
    of_row += kOther;
    if (next >= end) {
      ++next_head;
      start_head();
    }
  };
  start_head();
  CopyBoth<kHead, kOwn, kThreads>(KeyRows(problem, sequence, key0, kv_head), size, keys);
  if (count > 0) copy_queries(0);

  // A pair's keys, and a lane's first.
  const int pair_key = key0 + pair * S::kPairKeys, pair_end = pair_key + S::kPairKeys;
  const int lane_key = pair_key + lane / 4;
  uint4* const given_at = reinterpret_cast<uint4*>(shared + 2 * (S::kOwnBytes + S::kStageBytes) +
                                                   pair * S::kGivenBytes) +
                          lane;
  float sums[kAtoms][kHead / 8][4] = {};
  for (int i = 0, row = begin; i < count; ++i, row = row + kOther < end ? row + kOther : begin) {
    WaitForCopies();
    if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
    if (i + 1 < count) copy_queries(i + 1);
    const unsigned q = stages + i % 2 * S::kStageBytes, dout = q + S::kOtherBytes;
    const int rows_end = row + kOther;
    if (!problem.AnySees(sequence, row, rows_end, pair_key, pair_end)) continue;

    // Scores, which become weights; or gradients of weights, which become those of scores and begin
    // with what is taken from them.
    const float2* const lse =
        reinterpret_cast<const float2*>(shared + 2 * S::kOwnBytes + i % 2 * S::kStageBytes +
                                        2 * S::kOtherBytes) +
        lane % 4;
    float p[kAtoms][kOther / 8][4];
    ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
      const float2 delta = lse[kOther / 2 + n * 4];
      p[a][n][2 * half] = of_values ? 0 : -delta.x;
      p[a][n][2 * half + 1] = of_values ? 0 : -delta.y;
    });
    MultiplyByRows<T, kHead, kAtoms, kOther>(of_values ? keys : values, pair * S::kPairKeys,
                                             of_values ? q : dout, p);
    unsigned given[S::kGiven];
    if (of_values) {
      const auto weigh = [&](int a, int n, int half, float slope_x, float slope_y) {
        float &x = p[a][n][2 * half], &y = p[a][n][2 * half + 1];
        x = Exp2(x * levels.factor - lse[n * 4].x * kLog2E);
        y = Exp2(y * levels.factor - lse[n * 4].y * kLog2E);
        given[(a * kOther / 8 + n) * 2 + half] = Round<T>(x * slope_x, y * slope_y);
      };
      if (levels.capped) {
        ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
          p[a][n][2 * half] = levels(p[a][n][2 * half]);
          p[a][n][2 * half + 1] = levels(p[a][n][2 * half + 1]);
        });
      }
      if (!problem.AllSee(sequence, row, rows_end, pair_key, pair_end)) {
        MaskLevels<true, kAtoms, kOther>(problem, sequence, lane_key, row + lane % 4 * 2, p);
      }
      if (levels.capped) {
        ForPairs<kAtoms, kOther>([&](int a, int n, int half) {  // masked levels have no slope
          weigh(a, n, half, levels.Slope(fmaxf(p[a][n][2 * half], -1)),
                levels.Slope(fmaxf(p[a][n][2 * half + 1], -1)));
        });
      } else {
        ForPairs<kAtoms, kOther>([&](int a, int n, int half) { weigh(a, n, half, 1, 1); });
      }
#pragma unroll
      for (int g = 0; g < S::kGiven; g += 4) {
        given_at[g * 8] = make_uint4(given[g], given[g + 1], given[g + 2], given[g + 3]);
      }
      ArriveAtPair(pair);
    } else {
      WaitForPair(pair);
#pragma unroll
      for (int g = 0; g < S::kGiven; g += 4) {
        const uint4 some = given_at[g * 8];
        given[g] = some.x;
        given[g + 1] = some.y;
        given[g + 2] = some.z;
        given[g + 3] = some.w;
      }
      ForPairs<kAtoms, kOther>([&](int a, int n, int half) {
        float weights[2];
        Unpack<T>(given[(a * kOther / 8 + n) * 2 + half], weights);
        p[a][n][2 * half] *= weights[0];
        p[a][n][2 * half + 1] *= weights[1];
      });
    }
    AddByWeights<T, kHead, kAtoms, kOther>(p, of_values ? dout : q, sums);
  }

  // Sums take the place of own rows, once all copies are there and nobody reads these.
  WaitForCopies();
  __syncthreads();
  const float factor = of_values ? 1 : problem.scale;
  if (problem.parts > 1) {
    float* const to = problem.partials + lane % 4 * 2 +
                      problem.PartialAt(of_values, part, sequence, lane_key, kv_head);
    const int64_t stride = static_cast<int64_t>(problem.kv_heads) * size;
    ForPairs<kAtoms, kHead>([&](int a, int n, int half) {
      const int key = 16 * a + 8 * half;
      if (lane_key + key >= key_end || n * 8 >= size) return;
      *reinterpret_cast<float2*>(to + key * stride + n * 8) =
          make_float2(sums[a][n][2 * half] * factor, sums[a][n][2 * half + 1] * factor);
    });
    return;
  }
  WriteSums<kHead, kAtoms>(
      sums, factor, problem.adds_dkv, shared + (of_values ? 0 : S::kOwnBytes), pair * S::kPairKeys,
      key_end - pair_key, size,
      (of_values ? problem.dv : problem.dk) + problem.KeyAt(sequence, pair_key, kv_head),
      problem.kv_row);
}

constexpr int kSumThreads = 256;

// dk and dv from their partials, in order; a thread has 8 columns of a row.
template <typename T>
__global__ void __launch_bounds__(kSumThreads)
    SumPartialsKernel(const AttentionProblem<T> problem, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  if (i >= count + (Planted(Mistake::kNoBound) ? 1 : 0)) return;
  const bool of_values = blockIdx.y == 1;
  const int width = problem.kv_heads * problem.head_size;
  const int64_t row = i * 8 / width, column = i * 8 % width;
  float sums[8] = {};
  for (int part = 0; part < problem.parts; ++part) {
    const float* const from = problem.partials + problem.PartialAt(of_values, part, 0, 0, 0);
    float some[8];
    Load(from + i * 8, some);
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[e] += some[e];
  }
  Store((of_values ? problem.dv : problem.dk) + row / problem.keys * problem.kv_batch +
            row % problem.keys * problem.kv_row + column,
        sums);
}

template <typename T>
absl::Status SumPartials(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.parts == 1) return absl::OkStatus();
  const int64_t count =
      static_cast<int64_t>(problem.batch) * problem.keys * problem.kv_heads * problem.head_size / 8;
  return Launch("sums of attention's gradient", &SumPartialsKernel<T>,
                dim3(BlocksFor(count, kSumThreads), 2), kSumThreads, 0, stream, problem, count);
}

template <typename T, int kHead>
absl::Status Backward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  using Q = QuerySizes<kHead>;
  using K = KeySizes<kHead>;
  const absl::Status status =
      LaunchLarge("attention's gradient by queries", &TensorQueriesBackwardKernel<T, kHead>,
                  GridOf(problem.heads, problem.rows, Q::kOwn, problem.batch), Q::kThreads,
                  Q::kBytes, stream, problem);
  if (!status.ok()) return status;
  const dim3 grid = GridOf(problem.kv_heads * problem.parts, problem.keys, K::kOwn, problem.batch);
  return LaunchLarge("attention's gradient by keys", &TensorKeysBackwardKernel<T, kHead>, grid,
                     K::kThreads, K::kBytes, stream, problem);
}

template <typename T>
absl::Status BackwardBySize(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.head_size <= 64) return Backward<T, 64>(stream, problem);
  if (problem.head_size <= 96) return Backward<T, 96>(stream, problem);
  if (problem.head_size <= 128) return Backward<T, 128>(stream, problem);
  if (problem.head_size <= 192) return Backward<T, 192>(stream, problem);
  return Backward<T, 256>(stream, problem);
}

}  // namespace

template <typename T>
absl::Status TensorBackward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  const absl::Status status = BackwardBySize(stream, problem);
  return status.ok() ? SumPartials(stream, problem) : status;
}

template absl::Status TensorBackward(cudaStream_t, const AttentionProblem<BFloat16>&);
template absl::Status TensorBackward(cudaStream_t, const AttentionProblem<Float16>&);

}  // namespace strata::kernels::cuda
