// Attention's forward on tensor cores, as FlashAttention-2 has it (Dao 2023, algorithm 1): a warp
// owns rows of queries, whose scores, weights and sums stay in registers. Keys come while values
// are summed, and values while keys are multiplied.
#include "kernels/cuda/attention_launch.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace strata::kernels::cuda {
namespace {

// A warp has kAtoms times 16 rows of queries. The more it has, the less often it reads keys and
// values; its sums and the scores by the keys of a tile fill the registers.
template <int kHead>
struct Sizes {
  static constexpr int kAtoms = kHead <= 128 ? 2 : 1;
  static constexpr int kKeys = kHead == 96 || kHead == 128 ? 32 : 64;
  static constexpr int kWarps = kHead == 192 ? 8 : 4;
  static constexpr int kThreads = 32 * kWarps, kWarpRows = 16 * kAtoms;
  static constexpr int kRows = kWarps * kWarpRows;
  static constexpr unsigned kBytes = Tile<kHead>::kRowBytes * (kRows + 2 * kKeys);
};

// What a row's four lanes have, together.
template <typename Combine>
__device__ __forceinline__ float OverQuad(float value, Combine combine) {
#pragma unroll
  for (int distance = 2; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 2 ? 0xffffu : ~0u;
    value = combine(value, __shfl_xor_sync(mask, value, distance));
  }
  return value;
}

// kPlaced: of decoding; known beforehand, since others have no registers to spare.
template <typename T, int kHead, bool kPlaced>
__global__ void __launch_bounds__(Sizes<kHead>::kThreads)
    TensorForwardKernel(AttentionProblem<T> problem) {
  if constexpr (kPlaced) problem.PlaceRows();
  using S = Sizes<kHead>;
  constexpr int kAtoms = S::kAtoms, kKeys = S::kKeys;
  extern __shared__ __align__(128) char shared[];
  const unsigned q = SharedAddress(shared), k = q + Tile<kHead>::kRowBytes * S::kRows,
                 v = k + Tile<kHead>::kRowBytes * kKeys;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const BlockPlace place(problem.heads, false);
  const int head = place.head, sequence = place.sequence, kv_head = head / problem.group();
  const int row0 = place.tile * S::kRows;
  if (row0 >= problem.rows) return;
  const int row_end = min(row0 + S::kRows, problem.rows), size = problem.head_size;
  const int first = problem.FirstKey(sequence, row0), key0 = first / kKeys * kKeys;
  const int key_end = problem.LastKey(row_end - 1) + 1;
  if (problem.resumes && first >= key_end) return;  // what stands there stays
  // A warp's own, and a lane's first.
  const int warp_row = row0 + warp * S::kWarpRows, lane_row = warp_row + lane / 4;
  const Levels levels(problem);

  const auto copy_keys = [&](const T* from, int key, unsigned to) {
    CopyRows<kHead, kKeys, S::kThreads>(from + problem.KeyAt(sequence, key, kv_head),
                                        problem.kv_row, problem.keys - key, size, to);
  };
  CopyRows<kHead, S::kRows, S::kThreads>(problem.q + problem.QueryAt(sequence, row0, head),
                                         problem.q_row, row_end - row0, size, q);
  copy_keys(problem.k, key0, k);  // there are some: each row sees one

  float sums[kAtoms][kHead / 8][4] = {};
  float highest[kAtoms][2], sum[kAtoms][2];  // levels; a lane's part of its rows' exponentials
#pragma unroll
  for (int a = 0; a < kAtoms; ++a) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane_row + 16 * a + 8 * half;
      highest[a][half] = kNoneSeen;
      sum[a][half] = 0;
      if (!problem.resumes || row >= row_end) continue;
      highest[a][half] = problem.lse[problem.LseAt(sequence, row, head)] * kLog2E / levels.factor;
      sum[a][half] = lane % 4 == 0 ? 1 : 0;
      const T* out = problem.out + problem.OutAt(sequence, row, head) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n) {
        if (n * 8 >= size) continue;
        Unpack<T>(*reinterpret_cast<const unsigned*>(out + n * 8), &sums[a][n][2 * half]);
      }
    }
  }

  for (int key = key0; key < key_end; key += kKeys) {
    WaitForCopies();
    if (!Planted(Mistake::kNoBarrierBeforeReuse) || key == key0) __syncthreads();
    copy_keys(problem.v, key, v);
    const int warp_end = warp_row + S::kWarpRows;
    const bool any = problem.AnySees(sequence, warp_row, warp_end, key, key + kKeys);
    float scores[kAtoms][kKeys / 8][4] = {};
    if (any) MultiplyByRows<T, kHead, kAtoms, kKeys>(q, warp * S::kWarpRows, k, scores);
    WaitForCopies();
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    if (key + kKeys < key_end) copy_keys(problem.k, key + kKeys, k);
    if (!any) continue;

    if (levels.capped) {
#pragma unroll
      for (int i = 0; i < kAtoms * kKeys / 2; ++i) {
        float& score = scores[i / (kKeys / 2)][i / 4 % (kKeys / 8)][i % 4];
        score = levels(score);
      }
    }
    if (!problem.AllSee(sequence, warp_row, warp_end, key, key + kKeys)) {
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = lane_row + 16 * a + 8 * half;
          const int lowest = problem.FirstKey(sequence, row) - key - lane % 4 * 2;
          const int highest_seen = problem.LastKey(row) - key - lane % 4 * 2;
#pragma unroll
          for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const bool sees = n * 8 + i >= lowest && n * 8 + i <= highest_seen;
              if (!sees) scores[a][n][2 * half + i] = -INFINITY;
            }
          }
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAtoms; ++a) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = highest[a][half];
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
          most = fmaxf(most, scores[a][i / 2][2 * half + i % 2]);
        }
        most = OverQuad(most, Maximum());
        const float correction = Exp2((highest[a][half] - most) * levels.factor);
        const float shift = most * levels.factor;
        highest[a][half] = most;
        sum[a][half] *= correction;
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
          float& score = scores[a][i / 2][2 * half + i % 2];
          score = Exp2(score * levels.factor - shift);
          sum[a][half] += score;
        }
#pragma unroll
        for (int i = 0; i < kHead / 4; ++i) sums[a][i / 2][2 * half + i % 2] *= correction;
      }
    }
    AddByWeights<T, kHead, kAtoms, kKeys>(scores, v, sums);
  }

  // A warp's rows of queries are read by nobody else: its results take their place.
  __syncwarp();
#pragma unroll
  for (int a = 0; a < kAtoms; ++a) {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = OverQuad(sum[a][half], Sum());
      const int row = lane_row + 16 * a + 8 * half;
      factor[half] = 1 / total;
      if (problem.lse != nullptr && row < row_end && lane % 4 == 0) {
        problem.lse[problem.LseAt(sequence, row, head)] =
            highest[a][half] * levels.factor * kLn2 + logf(total);
      }
    }
    SumsToTile<T, kHead>(sums[a], shared, warp * S::kWarpRows + 16 * a,
                         [&](int half, int, float value) { return value * factor[half]; });
  }
  __syncwarp();
  TileToRows<kHead, S::kWarpRows>(shared, warp * S::kWarpRows, row_end - warp_row, size,
                                  problem.out + problem.OutAt(sequence, warp_row, head),
                                  problem.out_row());
}

template <typename T, int kHead>
absl::Status Forward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  using S = Sizes<kHead>;
  const dim3 grid = GridOf(problem.heads, problem.rows, S::kRows, problem.batch);
  const auto kernel = problem.position == nullptr ? &TensorForwardKernel<T, kHead, false>
                                                  : &TensorForwardKernel<T, kHead, true>;
  return LaunchLarge("attention", kernel, grid, S::kThreads, S::kBytes, stream, problem);
}

}  // namespace

template <typename T>
absl::Status TensorForward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.head_size <= 64) return Forward<T, 64>(stream, problem);
  if (problem.head_size <= 96) return Forward<T, 96>(stream, problem);
  if (problem.head_size <= 128) return Forward<T, 128>(stream, problem);
  if (problem.head_size <= 192) return Forward<T, 192>(stream, problem);
  return Forward<T, 256>(stream, problem);
}

template absl::Status TensorForward(cudaStream_t, const AttentionProblem<BFloat16>&);
template absl::Status TensorForward(cudaStream_t, const AttentionProblem<Float16>&);

}  // namespace strata::kernels::cuda
