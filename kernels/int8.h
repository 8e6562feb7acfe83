// Weights in 8 bits: of a row of a matrix one f32 scale, the row's largest magnitude / 127, and of
// each weight the nearest integer to weight / scale, of two as near the even one: -127 … 127.
#ifndef STRATA_KERNELS_INT8_H_
#define STRATA_KERNELS_INT8_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// Of a whole row. 0: its weights are zeros, or all too small for a scale. NaN: one of them is no
// finite number, and so will be all that the row becomes.
float Int8Scale(const float* row, int64_t count);

// `count` weights of a row whose scale is known.
void QuantiseInt8(const float* weights, int64_t count, float scale, int8_t* codes);

// weights[R, C] = codes[R, C] · scales[R]. T: float, BFloat16, Float16.
template <typename T>
void DequantiseInt8(const Context& context, const int8_t* codes, const float* scales, int64_t rows,
                    int64_t columns, T* weights);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_INT8_H_
