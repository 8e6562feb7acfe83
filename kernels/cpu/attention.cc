#include "kernels/attention.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/tiles_work.h"

namespace strata::kernels {
namespace {

namespace amx = avx512::amx;

// Below, as in decoding, tiles are mostly empty.
template <typename Problem>
bool FillsTiles(const Problem& problem) {
  constexpr int64_t kFew = 16;
  return problem.rows * (problem.heads / problem.kv_heads) >= kFew;
}

// Offsets in a packed qkv.
struct Packed {
  int64_t k, v, row;
  explicit Packed(const AttentionShape& shape)
      : k(shape.heads * shape.head_size),
        v(k + shape.kv_heads * shape.head_size),
        row(v + shape.kv_heads * shape.head_size) {}
};

int64_t DeltaFloats(const AttentionShape& shape) {
  return RoundUp(shape.batch * shape.heads * shape.sequence, 16);
}

}  // namespace

int64_t AttentionForwardFloatsPerThread(int64_t heads, int64_t kv_heads, int64_t head_size) {
  const int64_t lanes = AttentionForwardLanesFloats(heads, kv_heads, head_size);
  return TilesWork() ? std::max(lanes, amx::AttentionForwardFloats(head_size)) : lanes;
}

template <typename T>
void RunAttentionForward(const Context& context, const AttentionProblem<T>& problem,
                         float* workspace) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (FillsTiles(problem) && TilesWork()) {
      return amx::AttentionForward(context, problem, workspace);
    }
  }
  AttentionForwardByLanes(context, problem, workspace);
}

template <typename T>
int64_t AttentionBackwardFloatsPerThread(const AttentionShape& shape, int64_t rows) {
  const int64_t lanes = AttentionBackwardLanesFloats<T>(shape, rows);
  if (!std::is_same_v<T, BFloat16> || !TilesWork()) return lanes;
  const int64_t group = shape.heads / shape.kv_heads;
  return std::max(lanes, amx::AttentionBackwardFloats(shape.head_size, rows * group));
}

template <typename T>
void RunAttentionBackward(const Context& context, const AttentionBackwardProblem<T>& problem,
                          float* workspace) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (FillsTiles(problem) && TilesWork()) {
      return amx::AttentionBackward(context, problem, workspace);
    }
  }
  AttentionBackwardByLanes(context, problem, workspace);
}

int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  return AttentionForwardFloatsPerThread(shape.heads, shape.kv_heads, shape.head_size) * threads *
         static_cast<int64_t>(sizeof(float));
}

template <typename T>
void AttentionForward(const Context& context, const AttentionShape& shape, const T* qkv,
                      const int32_t* positions, T* out, float* lse, void* workspace) {
  const Packed packed(shape);
  const AttentionProblem<T> problem = {
      .batch = shape.batch,
      .rows = shape.sequence,
      .offset = 0,
      .keys = shape.sequence,
      .heads = shape.heads,
      .kv_heads = shape.kv_heads,
      .head_size = shape.head_size,
      .scores = shape.scores,
      .q = qkv,
      .k = qkv + packed.k,
      .v = qkv + packed.v,
      .q_row = packed.row,
      .q_batch = shape.sequence * packed.row,
      .kv_row = packed.row,
      .kv_batch = shape.sequence * packed.row,
      .out = out,
      .out_batch = shape.sequence * shape.heads * shape.head_size,
      .lse = lse,
      .lse_rows = shape.sequence,
      .sight = {.positions = positions, .batch = shape.sequence, .window = shape.scores.window}};
  RunAttentionForward(context, problem, static_cast<float*>(workspace));
}

template <typename T>
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  return (DeltaFloats(shape) +
          AttentionBackwardFloatsPerThread<T>(shape, shape.sequence) * threads) *
         static_cast<int64_t>(sizeof(float));
}

template <typename T>
void AttentionBackward(const Context& context, const AttentionShape& shape, const T* dout,
                       const T* qkv, const T* out, const float* lse, const int32_t* positions,
                       T* dqkv, void* workspace) {
  float* delta = static_cast<float*>(workspace);
  AttentionDelta(context, shape, dout, out, delta);
  const Packed packed(shape);
  const AttentionBackwardProblem<T> problem = {
      .batch = shape.batch,
      .rows = shape.sequence,
      .offset = 0,
      .keys = shape.sequence,
      .heads = shape.heads,
      .kv_heads = shape.kv_heads,
      .head_size = shape.head_size,
      .scores = shape.scores,
      .q = qkv,
      .k = qkv + packed.k,
      .v = qkv + packed.v,
      .dq = dqkv,
      .dk = dqkv + packed.k,
      .dv = dqkv + packed.v,
      .q_row = packed.row,
      .q_batch = shape.sequence * packed.row,
      .kv_row = packed.row,
      .kv_batch = shape.sequence * packed.row,
      .dout = dout,
      .out_batch = shape.sequence * shape.heads * shape.head_size,
      .lse = lse,
      .delta = delta,
      .lse_rows = shape.sequence,
      .sight = {.positions = positions, .batch = shape.sequence, .window = shape.scores.window}};
  RunAttentionBackward(context, problem, delta + DeltaFloats(shape));
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template void RunAttentionForward(const Context&, const AttentionProblem<T>&, float*);          \
  template int64_t AttentionBackwardFloatsPerThread<T>(const AttentionShape&, int64_t);           \
  template void RunAttentionBackward(const Context&, const AttentionBackwardProblem<T>&, float*); \
  template void AttentionForward(const Context&, const AttentionShape&, const T*, const int32_t*, \
                                 T*, float*, void*);                                              \
  template int64_t AttentionBackwardWorkspaceBytes<T>(const AttentionShape&, int);                \
  template void AttentionBackward(const Context&, const AttentionShape&, const T*, const T*,      \
                                  const T*, const float*, const int32_t*, T*, void*);
STRATA_INSTANTIATE(float)
STRATA_INSTANTIATE(BFloat16)
STRATA_INSTANTIATE(Float16)
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels
