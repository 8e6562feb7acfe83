// Attention with a cache: new rows are a problem of their own.
#include "kernels/cuda/attention_launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Keys and values of new rows to the cache: N elements by thread.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    AppendKernel(int64_t count, int rows, int context, int position, int columns, int q_columns,
                 const T* qkv, T* k_cache, T* v_cache) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
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

}  // namespace

template <typename T>
absl::Status AppendToCache(cudaStream_t stream, const DecodeShape& shape, const T* qkv, T* k_cache,
                           T* v_cache) {
  const absl::Status status =
      CheckAttention(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  const int64_t columns = shape.kv_heads * shape.head_size;
  const int64_t q_columns = shape.heads * shape.head_size;
  const int64_t count = shape.batch * shape.rows * columns;
  if (!status.ok() || count == 0) return status;
  const bool packets = ByPackets<T>(columns, qkv, k_cache, v_cache) && ByPackets<T>(q_columns);
  const auto kernel = packets ? &AppendKernel<T, kPacket<T>> : &AppendKernel<T, 1>;
  return Launch("rows to a cache", kernel,
                BlocksFor(packets ? count / kPacket<T> : count, kThreads), kThreads, 0, stream,
                count, static_cast<int>(shape.rows), static_cast<int>(shape.context),
                static_cast<int>(shape.position), static_cast<int>(columns),
                static_cast<int>(q_columns), qkv, k_cache, v_cache);
}

template <typename T>
absl::Status DecodeAttention(cudaStream_t stream, const DecodeShape& shape, const T* qkv,
                             const T* k_cache, const T* v_cache, T* out) {
  const absl::Status status =
      CheckAttention(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  if (!status.ok()) return status;
  auto problem =
      ProblemOfHeads<T>(shape.batch, shape.heads, shape.kv_heads, shape.head_size, shape.scores);
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
  return ForwardOf(stream, problem);
}

#define STRATA_INSTANTIATE(T)                                                                    \
  template absl::Status AppendToCache<T>(cudaStream_t, const DecodeShape&, const T*, T*, T*);    \
  template absl::Status DecodeAttention<T>(cudaStream_t, const DecodeShape&, const T*, const T*, \
                                           const T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
