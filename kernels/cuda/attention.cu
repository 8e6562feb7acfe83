// From shapes to problems, and which kernels take them.
#include "kernels/cuda/attention.h"

#include <type_traits>

#include "kernels/cuda/attention_problem.cuh"

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

// Keys and values of new rows to the cache: N elements by thread.
template <typename T, int N>
__global__ void __launch_bounds__(kDeltaThreads)
    AppendKernel(int64_t count, int rows, int context, int position, int columns, int q_columns,
                 const T* qkv, T* k_cache, T* v_cache) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kDeltaThreads + threadIdx.x) * N;
  if (i >= count + (Planted(Mistake::kNoBound) ? N : 0)) return;
  const int64_t row = i / columns, column = i % columns;
  const T* from = qkv + row * (q_columns + 2 * columns) + q_columns + column;
  const int64_t to = (row / rows * context + position + row % rows) * columns + column;
  float values[N];  // f32 holds a bf16 and gives it back
  Load(from, values);
  Store(k_cache + to, values);
  Load(from + columns, values);
  Store(v_cache + to, values);
}

absl::Status Invalid(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads,
                     int64_t head_size) {
  return absl::InvalidArgumentError(absl::StrCat(
      "attention of ", batch, " x ", rows, " rows, ", heads, " heads over ", kv_heads, " of ",
      head_size, " elements: key heads must divide heads, a head has at most ", kMostHeadSize,
      " elements, and there are at most 2^30 rows and 65535 sequences"));
}

absl::Status Check(int64_t batch, int64_t rows, int64_t heads, int64_t kv_heads,
                   int64_t head_size) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const bool heads_fit = kv_heads > 0 && heads > 0 && heads < 65536 && heads % kv_heads == 0;
  const bool fits = batch >= 0 && batch < 65536 && rows >= 0 && rows <= kMost && heads_fit &&
                    head_size > 0 && head_size <= kMostHeadSize;
  return fits ? absl::OkStatus() : Invalid(batch, rows, heads, kv_heads, head_size);
}
absl::Status Check(const AttentionShape& shape) {
  return Check(shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size);
}

float ScaleOf(const ScoreOptions& scores, int64_t head_size) {
  return scores.scale > 0 ? scores.scale : 1 / std::sqrt(static_cast<float>(head_size));
}

// All of a problem but where rows are and what they see.
template <typename T>
AttentionProblem<T> ProblemOf(int64_t batch, int64_t heads, int64_t kv_heads, int64_t head_size,
                              const ScoreOptions& scores) {
  AttentionProblem<T> problem;
  problem.batch = static_cast<int>(batch);
  problem.heads = static_cast<int>(heads);
  problem.kv_heads = static_cast<int>(kv_heads);
  problem.head_size = static_cast<int>(head_size);
  problem.window = static_cast<int>(std::min<int64_t>(scores.window, int64_t{1} << 30));
  problem.scale = ScaleOf(scores, head_size);
  problem.softcap = scores.softcap;
  problem.q_row = (heads + 2 * kv_heads) * head_size;
  return problem;
}

// Of whole sequences.
template <typename T>
AttentionProblem<T> ProblemOf(const AttentionShape& shape, const T* qkv, const int32_t* positions) {
  auto problem = ProblemOf<T>(shape.batch, shape.heads, shape.kv_heads, shape.head_size,
                              shape.scores);
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

template <typename T>
absl::Status Forward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.batch == 0 || problem.rows == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (TensorCoresTake(problem)) return TensorForward(stream, problem);
  }
  return SimpleForward(stream, problem);
}

template <typename T>
absl::Status Backward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.batch == 0 || problem.rows == 0) return absl::OkStatus();
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (TensorCoresTake(problem)) return TensorBackward(stream, problem);
  }
  return SimpleBackward(stream, problem);
}

}  // namespace

template <typename T>
absl::Status AttentionForward(cudaStream_t stream, const AttentionShape& shape, const T* qkv,
                              const int32_t* positions, T* out, float* lse) {
  if (const absl::Status status = Check(shape); !status.ok()) return status;
  auto problem = ProblemOf<T>(shape, qkv, positions);
  problem.out = out;
  problem.lse = lse;
  return Forward(stream, problem);
}

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.sequence * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status AttentionDelta(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                            const T* out, float* delta) {
  if (const absl::Status status = Check(shape); !status.ok()) return status;
  const int64_t count = shape.batch * shape.sequence * shape.heads;
  if (count == 0) return absl::OkStatus();
  const auto kernel = ByPackets<T>(shape.head_size, dout, out) ? &DeltaKernel<T, kPacket<T>>
                                                               : &DeltaKernel<T, 1>;
  return Launch("attention's delta", kernel, BlocksFor(count * kDeltaLanes, kDeltaThreads),
                kDeltaThreads, 0, stream, count, static_cast<int>(shape.sequence),
                static_cast<int>(shape.heads), static_cast<int>(shape.head_size), dout, out, delta);
}

template <typename T>
absl::Status AttentionBackward(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                               const T* qkv, const T* out, const float* lse,
                               const int32_t* positions, T* dqkv, void* workspace) {
  float* delta = static_cast<float*>(workspace);
  const absl::Status status = AttentionDelta(stream, shape, dout, out, delta);
  if (!status.ok()) return status;
  auto problem = ProblemOf<T>(shape, qkv, positions);
  problem.dout = dout;
  problem.lse = const_cast<float*>(lse);  // read only
  problem.delta = delta;
  problem.dq = dqkv;
  problem.dk = dqkv + shape.heads * shape.head_size;
  problem.dv = problem.dk + shape.kv_heads * shape.head_size;
  return Backward(stream, problem);
}

template <typename T>
absl::Status AppendToCache(cudaStream_t stream, const DecodeShape& shape, const T* qkv, T* k_cache,
                           T* v_cache) {
  const absl::Status status =
      Check(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  const int64_t columns = shape.kv_heads * shape.head_size;
  const int64_t q_columns = shape.heads * shape.head_size;
  const int64_t count = shape.batch * shape.rows * columns;
  if (!status.ok() || count == 0) return status;
  const bool packets = ByPackets<T>(columns, qkv, k_cache, v_cache) && ByPackets<T>(q_columns);
  const auto kernel = packets ? &AppendKernel<T, kPacket<T>> : &AppendKernel<T, 1>;
  return Launch("rows to a cache", kernel,
                BlocksFor(packets ? count / kPacket<T> : count, kDeltaThreads), kDeltaThreads, 0,
                stream, count, static_cast<int>(shape.rows), static_cast<int>(shape.context),
                static_cast<int>(shape.position), static_cast<int>(columns),
                static_cast<int>(q_columns), qkv, k_cache, v_cache);
}

template <typename T>
absl::Status DecodeAttention(cudaStream_t stream, const DecodeShape& shape, const T* qkv,
                             const T* k_cache, const T* v_cache, T* out) {
  const absl::Status status =
      Check(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  if (!status.ok()) return status;
  auto problem = ProblemOf<T>(shape.batch, shape.heads, shape.kv_heads, shape.head_size,
                              shape.scores);
  problem.rows = static_cast<int>(shape.rows);
  problem.offset = problem.lag = static_cast<int>(shape.position);
  problem.keys = static_cast<int>(shape.position + shape.rows);
  problem.q = qkv;
  problem.k = k_cache;
  problem.v = v_cache;
  problem.q_batch = shape.rows * problem.q_row;
  problem.kv_row = shape.kv_heads * shape.head_size;
  problem.kv_batch = shape.context * problem.kv_row;
  problem.out = out;
  problem.out_batch = shape.rows * shape.heads * shape.head_size;
  return Forward(stream, problem);
}

#define STRATA_INSTANTIATE(T)                                                                    \
  template absl::Status AttentionForward<T>(cudaStream_t, const AttentionShape&, const T*,       \
                                            const int32_t*, T*, float*);                         \
  template absl::Status AttentionDelta<T>(cudaStream_t, const AttentionShape&, const T*,         \
                                          const T*, float*);                                     \
  template absl::Status AttentionBackward<T>(cudaStream_t, const AttentionShape&, const T*,      \
                                             const T*, const T*, const float*, const int32_t*,   \
                                             T*, void*);                                         \
  template absl::Status AppendToCache<T>(cudaStream_t, const DecodeShape&, const T*, T*, T*);    \
  template absl::Status DecodeAttention<T>(cudaStream_t, const DecodeShape&, const T*, const T*, \
                                           const T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
