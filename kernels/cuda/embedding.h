// Embeddings of tokens on CUDA devices: what kernels/embedding.h computes. T is float, BFloat16 or
// Float16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_EMBEDDING_H_
#define STRATA_KERNELS_CUDA_EMBEDDING_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// The table's rows are those of tokens [first, first + count).
struct EmbeddingShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  int64_t first = 0, count = 0;
  float scale = 1;
};

// y[N, C] = table[tokens[N] - first, C] * scale; zeros for tokens that the table does not have.
template <typename T>
absl::Status EmbeddingForward(cudaStream_t stream, const EmbeddingShape& shape,
                              const int32_t* tokens, const T* table, T* y);

// dtable[count, C] += for each row n, in ascending n, dy[n] * scale to row tokens[n] - first; those
// of other tokens are passed over. Needs no workspace; reads up to N² / 2 tokens, from the caches.
template <typename T>
absl::Status EmbeddingBackward(cudaStream_t stream, const EmbeddingShape& shape,
                               const int32_t* tokens, const T* dy, float* dtable);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_EMBEDDING_H_
