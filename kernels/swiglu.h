// The gated feed-forward activation h = silu(gate) * up with silu(x) = x / (1 + exp(-x))
// (Shazeer, "GLU Variants Improve Transformer", 2020, eq. 5).
#ifndef STRATA_KERNELS_SWIGLU_H_
#define STRATA_KERNELS_SWIGLU_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// gate_up[N, 2F], gate in the first F columns -> h[N, F].
void SwiGluForward(const Context& context, int64_t rows, int64_t ffn, const float* gate_up,
                   float* h);

// dh[N, F], gate_up[N, 2F] -> dgate_up[N, 2F], which may be gate_up.
void SwiGluBackward(const Context& context, int64_t rows, int64_t ffn, const float* dh,
                    const float* gate_up, float* dgate_up);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_SWIGLU_H_
