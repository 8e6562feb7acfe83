// Token embedding: rows of a table, or of a part of one.
#ifndef STRATA_KERNELS_EMBEDDING_H_
#define STRATA_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// The table's rows are those of tokens [first, first + count).
struct EmbeddingShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  int64_t first = 0, count = 0;
};

// y[N, C] = table[tokens[N] - first, C]; zeros for tokens that the table does not have.
void EmbeddingForward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                      const float* table, float* y);

// dtable[count, C] += for each row n, in ascending n, dy[n] to row tokens[n] - first; those of
// other tokens are passed over.
void EmbeddingBackward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                       const float* dy, float* dtable);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_EMBEDDING_H_
