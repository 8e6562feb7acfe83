// Attention with a cache: new rows are a problem of their own.
#include "kernels/cuda/attention_launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Keys and values of new rows to the cache, or zeros to `out`: N elements by thread, of a row as
// many as it has queries.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    AppendKernel(int64_t count, int rows, int context, int columns, int q_columns,
                 DecodeScalars scalars, const T* qkv, T* k_cache, T* v_cache, T* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= count + (Planted(Mistake::kNoBound) ? N : 0)) return;
  const int64_t row = i / q_columns, column = i % q_columns;
  const int position = static_cast<int>(*scalars.position) + static_cast<int>(row % rows);
  float values[N] = {};  // f32 holds numbers of 16 bits and gives them back
  if (row % rows >= static_cast<int>(*scalars.rows) || position >= context) {
    Store(out + i, values);
    return;
  }
  if (column >= columns) return;
  const T* from = qkv + row * (q_columns + 2 * columns) + q_columns + column;
  const int64_t to = (row / rows * context + position) * columns + column;
  Load(from, values);
  Store(k_cache + to, values);
  Load(from + columns, values);
  Store(v_cache + to, values);
}

}  // namespace

template <typename T>
absl::Status AppendToCache(cudaStream_t stream, const DecodeShape& shape,
                           const DecodeScalars& scalars, const T* qkv, T* k_cache, T* v_cache,
                           T* out) {
  const absl::Status status =
      CheckAttention(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  const int64_t columns = shape.kv_heads * shape.head_size;
  const int64_t q_columns = shape.heads * shape.head_size;
  const int64_t count = shape.batch * shape.rows * q_columns;
  if (!status.ok() || count == 0) return status;
  const bool packets = ByPackets<T>(columns, qkv, k_cache, v_cache, out) && ByPackets<T>(q_columns);
  const auto kernel = packets ? &AppendKernel<T, kPacket<T>> : &AppendKernel<T, 1>;
  return Launch(
      "rows to a cache", kernel, BlocksFor(packets ? count / kPacket<T> : count, kThreads),
      kThreads, 0, stream, count, static_cast<int>(shape.rows), static_cast<int>(shape.context),
      static_cast<int>(columns), static_cast<int>(q_columns), scalars, qkv, k_cache, v_cache, out);
}

template <typename T>
absl::Status DecodeAttention(cudaStream_t stream, const DecodeShape& shape,
                             const DecodeScalars& scalars, const T* qkv, const T* k_cache,
                             const T* v_cache, T* out) {
  const absl::Status status =
      CheckAttention(shape.batch, shape.context, shape.heads, shape.kv_heads, shape.head_size);
  if (!status.ok()) return status;
  auto problem =
      ProblemOfHeads<T>(shape.batch, shape.heads, shape.kv_heads, shape.head_size, shape.scores);
  problem.rows = static_cast<int>(shape.rows);
  problem.keys = static_cast<int>(shape.context);
  problem.position = scalars.position;
  problem.placed_rows = scalars.rows;
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

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status AppendToCache<T>(cudaStream_t, const DecodeShape&, const DecodeScalars&,   \
                                         const T*, T*, T*, T*);                                    \
  template absl::Status DecodeAttention<T>(cudaStream_t, const DecodeShape&, const DecodeScalars&, \
                                           const T*, const T*, const T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
