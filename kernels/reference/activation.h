// Activations, alone and as gates: kernels/activation.h.
#ifndef STRATA_KERNELS_REFERENCE_ACTIVATION_H_
#define STRATA_KERNELS_REFERENCE_ACTIVATION_H_

#include "kernels/activation.h"
#include "kernels/reference/values.h"

namespace strata::kernels::reference {

double Activation(Function function, double x);
double ActivationSlope(Function function, double x);

Doubles GatedForward(int64_t rows, int64_t ffn, Function function, const Doubles& gate_up);

// dgate_up.
Doubles GatedBackward(int64_t rows, int64_t ffn, Function function, const Doubles& dh,
                      const Doubles& gate_up);

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_ACTIVATION_H_
