// Token embedding: kernels/embedding.h.
#ifndef STRATA_KERNELS_REFERENCE_EMBEDDING_H_
#define STRATA_KERNELS_REFERENCE_EMBEDDING_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

Doubles EmbeddingForward(int64_t channels, const Tokens& tokens, const Doubles& table);

// dtable with dy's rows added.
Doubles EmbeddingBackward(int64_t channels, const Tokens& tokens, const Doubles& dy,
                          const Doubles& dtable);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_EMBEDDING_H_
