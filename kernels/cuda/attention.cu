// Attention of whole sequences, and delta.
#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kDeltaThreads = 256, kDeltaLanes = 8;  // of a block; of a row of a head

// delta[B, H, T] of rows dout, out[B * T, H * D]; N elements at once.
template <typename T, int N>
__global__ void __launch_bounds__(kDeltaThreads)
    DeltaKernel(int64_t count, int sequence, int heads, int head_size, const T* dout, const T* out,
                float* delta) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x) / kDeltaLanes;
  float sum = 0;
  if (i < count + (Planted(Mistake::kNoBound) ? 1 : 0)) {
    for (int d = threadIdx.x % kDeltaLanes * N; d < head_size; d += kDeltaLanes * N) {
      float a[N], b[N];
      Load(dout + i * head_size + d, a);
      Load(out + i * head_size + d, b);
#pragma unroll
      for (int e = 0; e < N; ++e) sum += a[e] * b[e];
    }
  }
#pragma unroll
  for (int distance = kDeltaLanes / 2; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 2 ? 0xffffu : ~0u;
    sum += __shfl_xor_sync(mask, sum, distance);
  }
  if (i >= count || threadIdx.x % kDeltaLanes != 0) return;
  const int64_t row = i / heads, head = i % heads;
  delta[(row / sequence * heads + head) * sequence + row % sequence] = sum;
}

// Keys of few heads and sequences do not fill a device: then a key head's queries are so many parts
// of about as many heads that there are kEnoughTiles of keys, or one for each head.
int64_t PartsOf(const AttentionShape& shape) {
  constexpr int64_t kTileKeys = 64, kEnoughTiles = 512;
  const int64_t tiles = std::max<int64_t>(
      1, shape.batch * shape.kv_heads * ((shape.sequence + kTileKeys - 1) / kTileKeys));
  return std::min((kEnoughTiles + tiles - 1) / tiles, shape.heads / shape.kv_heads);
}
// Numbers of f32: of the keys' and values' gradients of each part.
int64_t PartialsOf(const AttentionShape& shape) {
  const int64_t parts = PartsOf(shape);
  return parts == 1 ? 0
                    : 2 * parts * shape.batch * shape.sequence * shape.kv_heads * shape.head_size;
}

// Of whole sequences.
template <typename T>
AttentionProblem<T> ProblemOf(const AttentionShape& shape, const T* qkv, const int32_t* positions) {
  auto problem =
      ProblemOfHeads<T>(shape.batch, shape.heads, shape.kv_heads, shape.head_size, shape.scores);
  problem.rows = problem.keys = static_cast<int>(shape.sequence);
  problem.positions = positions;
  problem.q = qkv;
  problem.k = qkv + shape.heads * shape.head_size;
  problem.v = problem.k + shape.kv_heads * shape.head_size;
  problem.kv_row = problem.q_row;
  problem.q_batch = problem.kv_batch = shape.sequence * problem.q_row;
  problem.out_batch = shape.sequence * shape.heads * shape.head_size;
  problem.lse_rows = shape.sequence;
  return problem;
}

}  // namespace

template <typename T>
absl::Status AttentionForward(cudaStream_t stream, const AttentionShape& shape, const T* qkv,
                              const int32_t* positions, T* out, float* lse) {
  if (const absl::Status status = CheckAttention(shape); !status.ok()) return status;
  auto problem = ProblemOf<T>(shape, qkv, positions);
  problem.out = out;
  problem.lse = lse;
  return ForwardOf(stream, problem);
}

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape) {
  const int64_t rows = shape.batch * shape.sequence;
  return (PartialsOf(shape) + rows * shape.heads) * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status AttentionDelta(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                            const T* out, float* delta) {
  if (const absl::Status status = CheckAttention(shape); !status.ok()) return status;
  const int64_t count = shape.batch * shape.sequence * shape.heads;
  if (count == 0) return absl::OkStatus();
  const auto kernel =
      ByPackets<T>(shape.head_size, dout, out) ? &DeltaKernel<T, kPacket<T>> : &DeltaKernel<T, 1>;
  return Launch("attention's delta", kernel, BlocksFor(count * kDeltaLanes, kDeltaThreads),
                kDeltaThreads, 0, stream, count, static_cast<int>(shape.sequence),
                static_cast<int>(shape.heads), static_cast<int>(shape.head_size), dout, out, delta);
}

template <typename T>
absl::Status AttentionBackward(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                               const T* qkv, const T* out, const float* lse,
                               const int32_t* positions, T* dqkv, void* workspace) {
  if (const absl::Status status = CheckAttention(shape); !status.ok()) return status;
  float* const partials = static_cast<float*>(workspace);
  float* const delta = partials + PartialsOf(shape);
  const absl::Status status = AttentionDelta(stream, shape, dout, out, delta);
  if (!status.ok()) return status;
  auto problem = ProblemOf<T>(shape, qkv, positions);
  problem.dout = dout;
  problem.lse = const_cast<float*>(lse);  // read only
  problem.delta = delta;
  problem.parts = static_cast<int>(PartsOf(shape));
  problem.partials = partials;
  problem.dq = dqkv;
  problem.dk = dqkv + shape.heads * shape.head_size;
  problem.dv = problem.dk + shape.kv_heads * shape.head_size;
  return BackwardOf(stream, problem);
}

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status AttentionForward<T>(cudaStream_t, const AttentionShape&, const T*,         \
                                            const int32_t*, T*, float*);                           \
  template absl::Status AttentionDelta<T>(cudaStream_t, const AttentionShape&, const T*, const T*, \
                                          float*);                                                 \
  template absl::Status AttentionBackward<T>(cudaStream_t, const AttentionShape&, const T*,        \
                                             const T*, const T*, const float*, const int32_t*, T*, \
                                             void*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
