// Activations of the feed-forward part, alone and as gates (Shazeer, "GLU Variants Improve
// Transformer", 2020, eq. 5).
#ifndef STRATA_KERNELS_ACTIVATION_H_
#define STRATA_KERNELS_ACTIVATION_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// f(x). silu: x / (1 + exp(-x)). gelu: x P(x) with P the normal distribution's (Hendrycks and
// Gimpel, "Gaussian Error Linear Units", 2016); by tanh: P(x) is taken as
// (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
enum class Function { kSilu, kGeluTanh, kGelu };

// h = f(x); h may be x.
template <typename T>
void ActivationForward(const Context& context, int64_t count, Function function, const T* x, T* h);

// dx = dh f'(x); dx may be dh or x.
template <typename T>
void ActivationBackward(const Context& context, int64_t count, Function function, const T* dh,
                        const T* x, T* dx);

// gate_up[N, 2F], gate in the first F columns -> h[N, F] = f(gate) * up.
template <typename T>
void GatedForward(const Context& context, int64_t rows, int64_t ffn, Function function,
                  const T* gate_up, T* h);

// dh[N, F], gate_up[N, 2F] -> dgate_up[N, 2F], which may be gate_up.
template <typename T>
void GatedBackward(const Context& context, int64_t rows, int64_t ffn, Function function,
                   const T* dh, const T* gate_up, T* dgate_up);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ACTIVATION_H_
