// Rows by teams: as many whole warps as keep a row in their registers take it together, so that
// short rows need no barrier and every lane has several packets on their way at once.
#ifndef STRATA_KERNELS_CUDA_TEAMS_CUH_
#define STRATA_KERNELS_CUDA_TEAMS_CUH_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {

inline constexpr int kHeld = 3;         // packets of a row that a lane keeps: a warp 768 of bf16
inline constexpr int kMostLanes = 384;  // of a team; what they do not hold is read again
inline constexpr int kMostWarps = kMostLanes / 32;  // of a block

// A block's threads: x are the lanes of a team, y the teams, of which short rows have several.
inline dim3 TeamsFor(int64_t packets) {
  constexpr int64_t kOfWarp = 32 * kHeld, kUsualWarps = 6;
  const int64_t warps = std::clamp<int64_t>((packets + kOfWarp - 1) / kOfWarp, 1, kMostWarps);
  return dim3(static_cast<unsigned>(32 * warps),
              static_cast<unsigned>(std::max<int64_t>(kUsualWarps / warps, 1)));
}

// The row of this thread's team, in the first of the rows that its block takes.
__device__ __forceinline__ int RowOfTeam() { return blockIdx.x * blockDim.y + threadIdx.y; }

// Calls body(i, the first column of N) for the packets of this lane: i below kHeld in those that
// it holds, kHeld in others.
template <int N, typename Body>
__device__ __forceinline__ void ForLane(int end, Body body) {
  const int step = blockDim.x * N;
  int c = threadIdx.x * N;
#pragma unroll
  for (int i = 0; i < kHeld; ++i, c += step) {
    if (c < end) body(i, c);
  }
  for (; c < end; c += step) body(kHeld, c);
}

// A row as one lane sees it: what it holds stays as it is stored.
template <typename T, int N>
class Row {
 public:
  __device__ __forceinline__ Row(const T* from, int end) : from_(from) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int c = (i * blockDim.x + threadIdx.x) * N;
      if (c < end) held_[i] = *reinterpret_cast<const Packet*>(from + c);
    }
  }

  __device__ __forceinline__ void Get(int i, int c, float (&values)[N]) const {
    Load(i < kHeld ? reinterpret_cast<const T*>(&held_[i]) : from_ + c, values);
  }

  // Becomes the sum of both rows as it is rounded and written to `sum`.
  __device__ __forceinline__ void Add(const Row& other, int end, T* sum) {
    ForLane<N>(end, [&](int i, int c) {
      float values[N], more[N];
      Get(i, c, values);
      other.Get(i, c, more);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] += more[k];
      if (i < kHeld) Store(reinterpret_cast<T*>(&held_[i]), values);
      Store(sum + c, values);
    });
    from_ = sum;  // what is not held, its lane has written
  }

 private:
  using Packet = std::conditional_t<N == 1, T, uint4>;
  const T* from_;
  Packet held_[kHeld];
};

// A lane's sums over rows of the columns that it has in each: in registers where it holds them,
// else in its team's shared memory, which has a place for all columns.
template <int N>
class LaneSums {
 public:
  __device__ __forceinline__ LaneSums(float* shared, int columns) : shared_(shared) {
    if (shared_ == nullptr) return;
    ForLane<N>(columns, [&](int i, int c) {
      const float zeros[N] = {};
      if (i == kHeld) Store(shared_ + c, zeros);
    });
  }

  __device__ __forceinline__ void Add(int i, int c, const float (&values)[N]) {
    float total[N];
    if (i == kHeld) Load(shared_ + c, total);
#pragma unroll
    for (int k = 0; k < N; ++k) (i < kHeld ? held_[i][k] : total[k]) += values[k];
    if (i == kHeld) Store(shared_ + c, total);
  }

  // All to the team's shared memory.
  __device__ __forceinline__ void Leave(int columns) const {
    ForLane<N>(columns, [&](int i, int c) {
      if (i < kHeld) Store(shared_ + c, held_[i]);
    });
  }

 private:
  float* shared_;
  float held_[kHeld][N] = {};
};

// Adds up the sums[teams, columns] that the block's teams have left.
__device__ __forceinline__ void JoinTeams(const float* sums, int columns, float* joined) {
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  const int threads = blockDim.x * blockDim.y, teams = blockDim.y;
  for (int c = threadIdx.y * blockDim.x + threadIdx.x; c < columns; c += threads) {
    float total = sums[c];
    for (int team = 1; team < teams; ++team) total += sums[team * columns + c];
    joined[c] = total;
  }
}

// A team's lanes wait for each other.
__device__ __forceinline__ void TeamBarrier() {
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
}

// K sums over a team: the same on every lane, and the same bits in every run. `partial`: shared, K
// values per warp of the block; free for the next sums afterwards.
template <int K>
__device__ __forceinline__ void SumOverTeam(float (&values)[K], float* partial) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
#pragma unroll
    for (int k = 0; k < K; ++k) values[k] += __shfl_xor_sync(mask, values[k], distance);
  }
  const int warps = blockDim.x / 32;
  if (warps == 1) return;
  float* of_team = partial + threadIdx.y * warps * K;
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int k = 0; k < K; ++k) of_team[threadIdx.x / 32 * K + k] = values[k];
  }
  if (!Planted(Mistake::kNoBarrierBeforeRead)) TeamBarrier();
#pragma unroll
  for (int k = 0; k < K; ++k) values[k] = of_team[k];
  for (int warp = 1; warp < warps; ++warp) {
#pragma unroll
    for (int k = 0; k < K; ++k) values[k] += of_team[warp * K + k];
  }
  if (!Planted(Mistake::kNoBarrierBeforeReuse)) TeamBarrier();
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_TEAMS_CUH_
