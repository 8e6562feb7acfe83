// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2) in
// the order of operations of PyTorch's torch.optim.AdamW.
#ifndef STRATA_KERNELS_ADAMW_H_
#define STRATA_KERNELS_ADAMW_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/optimizer_update.h"

namespace strata::kernels {

struct AdamWParams {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, times the learning rate
  int64_t step = 1;         // this update's number among those applied, from 1; for bias correction
  double grad_factor = 1;   // multiplied into the gradient: the clip factor
};

// Reads version s of parameter and moments and the gradient, writes version s + 1. Each output may
// be its own input.
void AdamW(const Context& context, int64_t count, const AdamWParams& params, const float* grad,
           const float* param_in, const float* m_in, const float* v_in, float* param_out,
           float* m_out, float* v_out);

// The same of elements [begin, end) in any types: the f32 numbers that these stand for are updated
// as above, bit by bit, and rounded when they are written. Moment 0 is the first, 1 the second.
// Where there are blocks, begin and end are whole ones.
void MixedAdamW(const Context& context, int64_t begin, int64_t end, const AdamWParams& params,
                const NumbersOfUpdate& numbers);

// The update again with the gradient times grad_factor, where version s + 1 was made at once, with
// factor 1, and the norm of the whole gradient has since turned out too long: a speculative
// update's correction. The gradient is no longer kept; it is g = m + (m' - m) / (1 - beta1), from
// the first moments of version s (m_in) and s + 1 (m_speculative). So the result is within rounding
// of the update that waits for the norm, not equal to it: g is off by about 2^-24 max(|m|, |m'|) /
// (1 - beta1), of which the new m gets back (1 - beta1). Each output may be its own input, and
// m_out m_speculative.
void AdamWFixUp(const Context& context, int64_t count, const AdamWParams& params,
                const float* m_speculative, const float* param_in, const float* m_in,
                const float* v_in, float* param_out, float* m_out, float* v_out);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ADAMW_H_
