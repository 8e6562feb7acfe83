// Token embedding: rows of a table.
#ifndef STRATA_KERNELS_EMBEDDING_H_
#define STRATA_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// y[N, C] = table[tokens[N], C]. Tokens must lie in the table.
void EmbeddingForward(const Context& context, int64_t rows, int64_t channels, const int32_t* tokens,
                      const float* table, float* y);

// dtable[V, C] += for each row n, in ascending n, dy[n] to row tokens[n].
void EmbeddingBackward(const Context& context, int64_t rows, int64_t channels,
                       const int32_t* tokens, const float* dy, float* dtable);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_EMBEDDING_H_
