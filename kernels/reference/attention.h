// Causal grouped-query attention with each row's whole probabilities: kernels/attention.h. Decoding
// is the forward of a whole sequence, a few rows at a time.
#ifndef STRATA_KERNELS_REFERENCE_ATTENTION_H_
#define STRATA_KERNELS_REFERENCE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/reference/values.h"

namespace strata::kernels::reference {

// Columns of qkv.
inline int64_t QkvColumns(const AttentionShape& s) {
  return (s.heads + 2 * s.kv_heads) * s.head_size;
}

// Of rows inside their documents, [B, T]; empty: a sequence is one document.
using Positions = std::vector<int32_t>;

struct Attention {
  Doubles out, lse;
};
Attention AttentionForward(const AttentionShape& s, const Doubles& qkv,
                           const Positions& positions = {});

// dqkv.
Doubles AttentionBackward(const AttentionShape& s, const Doubles& qkv, const Doubles& dout,
                          const Positions& positions = {});

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ATTENTION_H_
