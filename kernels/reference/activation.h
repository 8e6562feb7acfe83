// SwiGLU: kernels/activation.h.
#ifndef STRATA_KERNELS_REFERENCE_ACTIVATION_H_
#define STRATA_KERNELS_REFERENCE_ACTIVATION_H_

#include "kernels/reference/values.h"

namespace strata::kernels::reference {

Doubles SwiGluForward(int64_t rows, int64_t ffn, const Doubles& gate_up);

// dgate_up.
Doubles SwiGluBackward(int64_t rows, int64_t ffn, const Doubles& dh, const Doubles& gate_up);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ACTIVATION_H_
