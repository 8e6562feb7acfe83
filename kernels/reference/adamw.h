// AdamW: kernels/adamw.h.
#ifndef STRATA_KERNELS_REFERENCE_ADAMW_H_
#define STRATA_KERNELS_REFERENCE_ADAMW_H_

#include "kernels/adamw.h"
#include "kernels/reference/values.h"

namespace strata::kernels::reference {

struct AdamWState {
  Doubles param, m, v;
};

// torch.optim.AdamW's single-tensor update.
void AdamW(const AdamWParams& params, const Doubles& grad, AdamWState* state);

// `state` is of version s, m_speculative the first moment of s + 1 that factor 1 gave.
void AdamWFixUp(const AdamWParams& params, const Doubles& m_speculative, AdamWState* state);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ADAMW_H_
