// Embeddings: rows of a table, or of a part of one, by tokens; and by positions.
#ifndef STRATA_KERNELS_EMBEDDING_H_
#define STRATA_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// The table's rows are those of tokens [first, first + count).
struct EmbeddingShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
  int64_t first = 0, count = 0;
  float scale = 1;
};

// y[N, C] = table[tokens[N] - first, C] * scale; zeros for tokens that the table does not have.
template <typename T>
void EmbeddingForward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                      const T* table, T* y);

// dtable[count, C] += for each row n, in ascending n, dy[n] * scale to row tokens[n] - first; those
// of other tokens are passed over.
template <typename T>
void EmbeddingBackward(const Context& context, const EmbeddingShape& shape, const int32_t* tokens,
                       const T* dy, float* dtable);

struct PositionsShape {
  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t channels = 0;  // C
  // Row n stands at position start + (first + n) % T, which must lie in the table.
  int64_t start = 0;
  int64_t first = 0;
};

// y[N, C] += table[position of n, C]. `positions` [N]: where each row stands instead, in the table;
// null: as the shape says.
template <typename T>
void AddPositions(const Context& context, const PositionsShape& shape, const T* table,
                  const int32_t* positions, T* y);

// dtable[position of n, C] += dy[n], in ascending n.
template <typename T>
void PositionsGradient(const Context& context, const PositionsShape& shape, const T* dy,
                       const int32_t* positions, float* dtable);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_EMBEDDING_H_
