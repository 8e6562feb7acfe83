// Causal grouped-query attention on CUDA devices: what kernels/attention.h computes, whose shapes
// these are. T is float, BFloat16 or Float16; pointers are to device memory; work is queued on the
// stream. Errors are those of arguments and of launches.
//
// 16 bits with heads of a multiple of 8 elements, in rows aligned to 16 bytes, are multiplied on
// tensor cores: probabilities and gradients of scores are then rounded to T before the second
// product. All else is computed in f32. Sums have an order that the shape gives: the same bits in
// every run.
#ifndef STRATA_KERNELS_CUDA_ATTENTION_H_
#define STRATA_KERNELS_CUDA_ATTENTION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention.h"

namespace strata::kernels::cuda {

inline constexpr int64_t kMostHeadSize = 256;

// qkv[N, (H + 2K) * D], query heads first, then key heads, then value heads -> out[N, H * D] and
// lse[B, H, T]. positions[B, T]: rows' places inside their documents; null: all up to a row's own.
template <typename T>
absl::Status AttentionForward(cudaStream_t stream, const AttentionShape& shape, const T* qkv,
                              const int32_t* positions, T* out, float* lse);

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape);

// dqkv[N, (H + 2K) * D] is written (not accumulated) from dout[N, H * D] and what forward saw and
// made.
template <typename T>
absl::Status AttentionBackward(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                               const T* qkv, const T* out, const float* lse,
                               const int32_t* positions, T* dqkv, void* workspace);

// delta[B, H, T] = sum over d of dout * out.
template <typename T>
absl::Status AttentionDelta(cudaStream_t stream, const AttentionShape& shape, const T* dout,
                            const T* out, float* delta);

// Parts of keys and values, each with other rows of the sequences than the queries: the shape's
// positions are in device memory, its spans in the host's.

// The queries of qkv[N, (H + 2K) * D] over kv[N, 2K * D], keys before values. `first`: out[N, H *
// D] and lse[B, H, T] are written; else they hold what other keys gave, and become what all give
// together.
template <typename T>
absl::Status AttentionPartForward(cudaStream_t stream, const AttentionPartShape& shape,
                                  const T* qkv, const T* kv, bool first, T* out, float* lse);

// The queries' columns of dqkv[N, (H + 2K) * D] are written when `first`, else added to; dkv[N, 2K
// * D] is written. lse is that of all keys.
template <typename T>
absl::Status AttentionPartBackward(cudaStream_t stream, const AttentionPartShape& shape,
                                   const T* dout, const T* qkv, const T* kv, const float* lse,
                                   const float* delta, bool first, T* dqkv, T* dkv);

// Decoding with a cache of keys and values, each [B, context, K * D].

// What the device finds when the kernels run, in the scalar block: rows already in the cache, which
// take the place of the shape's position, and how many of its rows are real. What does not fit the
// context is not looked at.
struct DecodeScalars {
  const double *position = nullptr, *rows = nullptr;
};

// Copies the keys and values of the real rows of qkv[B * rows, (H + 2K) * D] to cache rows from
// position on. Rows of out[B * rows, H * D] that are not real become zeros.
template <typename T>
absl::Status AppendToCache(cudaStream_t stream, const DecodeShape& shape,
                           const DecodeScalars& scalars, const T* qkv, T* k_cache, T* v_cache,
                           T* out);

// New row i of each sequence attends to cache rows [0, position + i], its own included (append
// first) -> real rows of out[B * rows, H * D].
template <typename T>
absl::Status DecodeAttention(cudaStream_t stream, const DecodeShape& shape,
                             const DecodeScalars& scalars, const T* qkv, const T* k_cache,
                             const T* v_cache, T* out);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ATTENTION_H_
