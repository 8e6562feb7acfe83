// Attention in f32, for all that tensor cores do not take: tiles of rows in shared memory as f32,
// a running maximum and sum. 16 x 16 threads: a thread has the products of kR rows of one tile and
// kR rows of another, and of the sums every 16th part of kR rows.
#include "kernels/cuda/attention_launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kSide = 16, kThreads = kSide * kSide;

template <int kHead, int kR>
struct Sizes {
  static constexpr int kTile = kSide * kR;  // rows
  static constexpr int kPitch = kHead + 4;  // floats: 8 lanes read 8 rows from 32 banks
  static constexpr int kWeightPitch = kTile + 4;
  static constexpr int kPackets = kHead / 64;  // of the sums, by thread and row
  static constexpr int kRowFloats = kTile * kPitch, kWeightFloats = kTile * kWeightPitch;
};

__device__ int RowOfThread() { return threadIdx.x / kSide; }
__device__ int ColumnOfThread() { return threadIdx.x % kSide; }

// A head's elements, up to whole packets of shared memory.
__device__ int Width(int head_size) { return (head_size + 3) / 4 * 4; }

// `rows` rows, then zeros.
template <typename S, int N, typename T>
__device__ void LoadRows(const T* from, int64_t stride, int rows, int head_size, float* to) {
  const int across = Width(head_size) / N;
  for (int i = threadIdx.x; i < S::kTile * across; i += kThreads) {
    const int row = i / across, column = i % across * N;
    float values[N] = {};
    if (row < rows + (Planted(Mistake::kNoBound) ? 1 : 0) && column < head_size) {
      Load(from + row * stride + column, values);
    }
    Store(to + row * S::kPitch + column, values);
  }
}

__device__ float4 Four(const float* p) { return *reinterpret_cast<const float4*>(p); }

// Of a thread's rows of `a` and of `b`.
template <typename S, int kR>
__device__ void Products(const float* a, const float* b, int width, float (&products)[kR][kR]) {
  a += RowOfThread() * S::kPitch;
  b += ColumnOfThread() * S::kPitch;
#pragma unroll
  for (int i = 0; i < kR * kR; ++i) products[i / kR][i % kR] = 0;
#pragma unroll 2
  for (int d = 0; d < width; d += 4) {
    float4 of_a[kR], of_b[kR];
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      of_a[i] = Four(a + i * kSide * S::kPitch + d);
      of_b[i] = Four(b + i * kSide * S::kPitch + d);
    }
#pragma unroll
    for (int i = 0; i < kR; ++i) {
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        products[i][j] += of_a[i].x * of_b[j].x + of_a[i].y * of_b[j].y + of_a[i].z * of_b[j].z +
                          of_a[i].w * of_b[j].w;
      }
    }
  }
}

// A thread's weights to where its half of a warp reads them.
template <typename S, int kR>
__device__ void StoreWeights(const float (&weights)[kR][kR], float* to) {
#pragma unroll
  for (int i = 0; i < kR * kR; ++i) {
    to[(RowOfThread() + i / kR * kSide) * S::kWeightPitch + ColumnOfThread() + i % kR * kSide] =
        weights[i / kR][i % kR];
  }
}

// Of a packet of the sums.
__device__ int ColumnOf(int packet) { return packet * 64 + ColumnOfThread() * 4; }

// sums += weights[rows, keys] rows[keys, columns].
template <typename S, int kR>
__device__ void AddProducts(const float* weights, const float* rows, int width,
                            float (&sums)[kR][S::kPackets][4]) {
  weights += RowOfThread() * S::kWeightPitch;
#pragma unroll 2
  for (int key = 0; key < S::kTile; ++key) {
    float weight[kR];
#pragma unroll
    for (int i = 0; i < kR; ++i) weight[i] = weights[i * kSide * S::kWeightPitch + key];
#pragma unroll
    for (int packet = 0; packet < S::kPackets; ++packet) {
      if (ColumnOf(packet) >= width) break;
      const float4 row = Four(rows + key * S::kPitch + ColumnOf(packet));
#pragma unroll
      for (int i = 0; i < kR; ++i) {
        sums[i][packet][0] += weight[i] * row.x;
        sums[i][packet][1] += weight[i] * row.y;
        sums[i][packet][2] += weight[i] * row.z;
        sums[i][packet][3] += weight[i] * row.w;
      }
    }
  }
}

// to (+)= factor * a row of sums.
template <int kPackets, typename T>
__device__ void WriteRow(const float (&sums)[kPackets][4], float factor, bool adds, int head_size,
                         T* to) {
#pragma unroll
  for (int i = 0; i < kPackets * 4; ++i) {
    const int d = ColumnOf(i / 4) + i % 4;
    if (d >= head_size) break;
    to[d] = FromF32<T>(sums[i / 4][i % 4] * factor + (adds ? ToF32(to[d]) : 0.f));
  }
}

// Over the 16 threads that share rows.
template <typename Combine>
__device__ float OverRow(float value, Combine combine) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 4 ? 0xffffu : ~0u;
    value = combine(value, __shfl_xor_sync(mask, value, distance));
  }
  return value;
}

template <typename T, int N, int kHead, int kR>
__global__ void __launch_bounds__(kThreads, kR == 4 ? 1 : 2)  // blocks: the registers they may have
    SimpleForwardKernel(AttentionProblem<T> problem) {
  if (problem.position != nullptr) problem.PlaceRows();
  using S = Sizes<kHead, kR>;
  extern __shared__ __align__(16) float shared[];
  float *q = shared, *k = q + S::kRowFloats, *v = k + S::kRowFloats, *weights = v + S::kRowFloats;
  const BlockPlace place(problem.heads, false);
  const int head = place.head, sequence = place.sequence, kv_head = head / problem.group();
  const int row0 = place.tile * S::kTile;
  if (row0 >= problem.rows) return;
  const int row_end = min(row0 + S::kTile, problem.rows);
  const int key0 = problem.FirstKey(sequence, row0), key_end = problem.LastKey(row_end - 1) + 1;
  if (problem.resumes && key0 >= key_end) return;  // what stands there stays
  const int size = problem.head_size, width = Width(size);
  const Levels levels(problem);
  LoadRows<S, N>(problem.q + problem.QueryAt(sequence, row0, head), problem.q_row, row_end - row0,
                 size, q);

  float sums[kR][S::kPackets][4] = {}, sum[kR], highest[kR];
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = row0 + RowOfThread() + i * kSide;
    const bool resumes = problem.resumes && row < row_end;
    highest[i] = kNoneSeen;
    sum[i] = 0;
    if (resumes) {
      highest[i] = problem.lse[problem.LseAt(sequence, row, head)] * kLog2E / levels.factor;
      sum[i] = ColumnOfThread() == 0 ? 1 : 0;  // threads have parts of it
      const T* out = problem.out + problem.OutAt(sequence, row, head);
#pragma unroll
      for (int e = 0; e < S::kPackets * 4; ++e) {
        const int d = ColumnOf(e / 4) + e % 4;
        if (d < size) sums[i][e / 4][e % 4] = ToF32(out[d]);
      }
    }
  }

  for (int key = key0; key < key_end; key += S::kTile) {
    if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
    const int64_t at = problem.KeyAt(sequence, key, kv_head);
    const int keys = min(S::kTile, problem.keys - key);
    LoadRows<S, N>(problem.k + at, problem.kv_row, keys, size, k);
    LoadRows<S, N>(problem.v + at, problem.kv_row, keys, size, v);
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    float scores[kR][kR];
    Products<S>(q, k, width, scores);
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const int row = row0 + RowOfThread() + i * kSide;
      const int first = problem.FirstKey(sequence, row), last = problem.LastKey(row);
      float most = highest[i];
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        const int mine = key + ColumnOfThread() + j * kSide;
        const bool sees = mine >= first && mine <= last;
        scores[i][j] = sees ? levels(scores[i][j]) : -INFINITY;
        most = fmaxf(most, scores[i][j]);
      }
      most = OverRow(most, Maximum());
      const float correction = Exp2((highest[i] - most) * levels.factor);
      highest[i] = most;
      sum[i] *= correction;
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        scores[i][j] = Exp2((scores[i][j] - most) * levels.factor);
        sum[i] += scores[i][j];
      }
#pragma unroll
      for (int e = 0; e < S::kPackets * 4; ++e) sums[i][e / 4][e % 4] *= correction;
    }
    StoreWeights<S>(scores, weights);
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncwarp();
    AddProducts<S>(weights, v, width, sums);
  }

#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = row0 + RowOfThread() + i * kSide;
    const float total = OverRow(sum[i], Sum());
    if (row >= row_end) continue;
    WriteRow(sums[i], 1 / total, false, size, problem.out + problem.OutAt(sequence, row, head));
    if (problem.lse != nullptr && ColumnOfThread() == 0) {
      problem.lse[problem.LseAt(sequence, row, head)] =
          highest[i] * levels.factor * kLn2 + logf(total);
    }
  }
}

// What the gradient needs of a query's row.
struct Query {
  int first, last;  // key
  float lse, delta;

  template <typename T>
  __device__ Query(const AttentionProblem<T>& problem, int sequence, int row, int head)
      : first(0), last(-1), lse(0), delta(0) {
    if (row >= problem.rows) return;
    const int64_t at = problem.LseAt(sequence, row, head);
    first = problem.FirstKey(sequence, row);
    last = problem.LastKey(row);
    lse = problem.lse[at] * kLog2E;
    delta = problem.delta[at];
  }
  __device__ Query() {}
};

// kOfKeys: a block has a tile of keys and values and goes over the queries of all heads that see
// it, for dk and dv. Otherwise it has a tile of queries and their dout, and goes over keys and
// values, for dq.
template <typename T, int N, int kHead, int kR, bool kOfKeys>
__global__ void __launch_bounds__(kThreads, 2)
    SimpleBackwardKernel(const AttentionProblem<T> problem) {
  using S = Sizes<kHead, kR>;
  extern __shared__ __align__(16) float shared[];
  float *own = shared, *own_values = own + S::kRowFloats;
  float *other = own_values + S::kRowFloats, *other_values = other + S::kRowFloats;
  float *gradients = other_values + S::kRowFloats, *weights = gradients + S::kWeightFloats;
  const BlockPlace place(kOfKeys ? problem.kv_heads : problem.heads, kOfKeys);
  const int sequence = place.sequence, size = problem.head_size, width = Width(size);
  const Levels levels(problem);
  // q and dout, or k and v.
  const auto load_queries = [&](int row, int head, float* queries, float* douts) {
    const int rows = min(S::kTile, problem.rows - row);
    LoadRows<S, N>(problem.q + problem.QueryAt(sequence, row, head), problem.q_row, rows, size,
                   queries);
    LoadRows<S, N>(problem.dout + problem.OutAt(sequence, row, head), problem.out_row(), rows, size,
                   douts);
  };
  const auto load_keys = [&](int key, int kv_head, float* keys, float* values) {
    const int rows = min(S::kTile, problem.keys - key);
    const int64_t at = problem.KeyAt(sequence, key, kv_head);
    LoadRows<S, N>(problem.k + at, problem.kv_row, rows, size, keys);
    LoadRows<S, N>(problem.v + at, problem.kv_row, rows, size, values);
  };

  // Of the tiles that the block has, and of those that it goes over.
  const int own0 = place.tile * S::kTile;
  const int own_end = min(own0 + S::kTile, kOfKeys ? problem.keys : problem.rows);
  const int group = problem.group(), kv_head = kOfKeys ? place.head : place.head / group;
  int begin, end, head = kOfKeys ? kv_head * group : place.head;
  const int head_end = kOfKeys ? head + group : head + 1;
  Query of_row[kR];
  if constexpr (kOfKeys) {
    load_keys(own0, kv_head, own, own_values);
    begin = problem.FirstRow(own0);
    end = problem.EndOfRows(sequence, own_end);
  } else {
    load_queries(own0, head, own, own_values);
    begin = problem.FirstKey(sequence, own0);
    end = problem.LastKey(own_end - 1) + 1;
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      of_row[i] = Query(problem, sequence, own0 + RowOfThread() + i * kSide, head);
    }
  }

  float sums[kR][S::kPackets][4] = {}, value_sums[kR][S::kPackets][4] = {};
  for (; head < head_end; ++head) {
    for (int at = begin; at < end; at += S::kTile) {
      if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
      if constexpr (kOfKeys) {
        load_queries(at, head, other, other_values);
      } else {
        load_keys(at, kv_head, other, other_values);
      }
      if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
      float p[kR][kR], ds[kR][kR];
      Products<S>(own, other, width, p);
      Products<S>(own_values, other_values, width, ds);
#pragma unroll
      for (int j = 0; j < kR; ++j) {
        const int column = at + ColumnOfThread() + j * kSide;
        Query of_column;
        if constexpr (kOfKeys) of_column = Query(problem, sequence, column, head);
#pragma unroll
        for (int i = 0; i < kR; ++i) {
          const Query& query = kOfKeys ? of_column : of_row[i];
          const int key = kOfKeys ? own0 + RowOfThread() + i * kSide : column;
          const float level = levels(p[i][j]);
          const bool sees = key >= query.first && key <= query.last;
          p[i][j] = sees ? Exp2(level * levels.factor - query.lse) : 0;
          ds[i][j] = sees ? p[i][j] * (ds[i][j] - query.delta) * levels.Slope(level) : 0;
        }
      }
      StoreWeights<S>(ds, gradients);
      if constexpr (kOfKeys) StoreWeights<S>(p, weights);
      if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncwarp();
      AddProducts<S>(gradients, other, width, sums);
      if constexpr (kOfKeys) AddProducts<S>(weights, other_values, width, value_sums);
    }
  }

#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = own0 + RowOfThread() + i * kSide;
    if (row >= own_end) continue;
    if constexpr (kOfKeys) {
      const int64_t to = problem.KeyAt(sequence, row, kv_head);
      WriteRow(sums[i], problem.scale, problem.adds_dkv, size, problem.dk + to);
      WriteRow(value_sums[i], 1, problem.adds_dkv, size, problem.dv + to);
    } else {
      WriteRow(sums[i], problem.scale, problem.adds_dq, size,
               problem.dq + problem.QueryAt(sequence, row, place.head));
    }
  }
}

template <typename T, int N, int kHead, int kR>
absl::Status Forward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  using S = Sizes<kHead, kR>;
  const dim3 grid = GridOf(problem.heads, problem.rows, S::kTile, problem.batch);
  return LaunchLarge("attention", &SimpleForwardKernel<T, N, kHead, kR>, grid, kThreads,
                     (3 * S::kRowFloats + S::kWeightFloats) * sizeof(float), stream, problem);
}

template <typename T, int N, int kHead, int kR>
absl::Status Backward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  using S = Sizes<kHead, kR>;
  constexpr size_t kOfQueries = (4 * S::kRowFloats + S::kWeightFloats) * sizeof(float);
  constexpr size_t kOfKeys = kOfQueries + S::kWeightFloats * sizeof(float);
  const dim3 queries = GridOf(problem.heads, problem.rows, S::kTile, problem.batch);
  const dim3 keys = GridOf(problem.kv_heads, problem.keys, S::kTile, problem.batch);
  const absl::Status status =
      LaunchLarge("attention's gradient, of keys", &SimpleBackwardKernel<T, N, kHead, kR, true>,
                  keys, kThreads, kOfKeys, stream, problem);
  if (!status.ok()) return status;
  return LaunchLarge("attention's gradient, of queries",
                     &SimpleBackwardKernel<T, N, kHead, kR, false>, queries, kThreads, kOfQueries,
                     stream, problem);
}

template <typename T, int N>
absl::Status ForwardBy(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.head_size <= 64) return Forward<T, N, 64, 4>(stream, problem);
  if (problem.head_size <= 128) return Forward<T, N, 128, 2>(stream, problem);
  return Forward<T, N, 256, 1>(stream, problem);
}
template <typename T, int N>
absl::Status BackwardBy(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if (problem.head_size <= 64) return Backward<T, N, 64, 2>(stream, problem);
  if (problem.head_size <= 128) return Backward<T, N, 128, 2>(stream, problem);
  return Backward<T, N, 256, 1>(stream, problem);
}

// Whether what kernels read by rows is there by packets. 16 bits come here when it is not.
template <typename T, typename... Pointers>
bool RowsByPackets(const AttentionProblem<T>& problem, const Pointers*... pointers) {
  return ByPackets<T>(problem.head_size, problem.q, problem.k, problem.v) &&
         ByPackets<T>(problem.q_row, pointers...) && ByPackets<T>(problem.kv_row) &&
         ByPackets<T>(problem.q_batch) && ByPackets<T>(problem.kv_batch);
}

}  // namespace

template <typename T>
absl::Status SimpleForward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if constexpr (sizeof(T) == 4) {
    if (RowsByPackets(problem)) return ForwardBy<T, kPacket<T>>(stream, problem);
  }
  return ForwardBy<T, 1>(stream, problem);
}
template <typename T>
absl::Status SimpleBackward(cudaStream_t stream, const AttentionProblem<T>& problem) {
  if constexpr (sizeof(T) == 4) {
    if (RowsByPackets(problem, problem.dout)) return BackwardBy<T, kPacket<T>>(stream, problem);
  }
  return BackwardBy<T, 1>(stream, problem);
}

#define STRATA_INSTANTIATE(T)                                                    \
  template absl::Status SimpleForward(cudaStream_t, const AttentionProblem<T>&); \
  template absl::Status SimpleBackward(cudaStream_t, const AttentionProblem<T>&)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
