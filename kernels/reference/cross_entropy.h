// Softmax cross entropy: kernels/cross_entropy.h. Rows with a negative target are passed over.
#ifndef STRATA_KERNELS_REFERENCE_CROSS_ENTROPY_H_
#define STRATA_KERNELS_REFERENCE_CROSS_ENTROPY_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

// The sum over rows; with a softcap, which is not 0, of capped logits.
double CrossEntropyLoss(int64_t vocab, const Tokens& targets, const Doubles& logits,
                        double softcap = 0);

// Towards the logits before the cap.
Doubles CrossEntropyGradient(int64_t vocab, double scale, const Tokens& targets,
                             const Doubles& logits, double softcap = 0);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_CROSS_ENTROPY_H_
