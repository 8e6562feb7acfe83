// SGD: kernels/sgd.h.
#ifndef STRATA_KERNELS_REFERENCE_SGD_H_
#define STRATA_KERNELS_REFERENCE_SGD_H_

#include "kernels/reference/values.h"
#include "kernels/sgd.h"

namespace strata::kernels::reference {

// torch.optim.SGD's single-tensor update with dampening 0.
void Sgd(const SgdParams& params, const Doubles& grad, Doubles* weights, Doubles* buffer);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_SGD_H_
