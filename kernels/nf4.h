// Weights in 4 bits: NF4 (Dettmers et al., "QLoRA", NeurIPS 2023, §3), with double quantisation or
// without, code for code what bitsandbytes makes of a tensor.
//
// 64 weights in row-major order are a block: each is one of 16 numbers, quantiles of the normal
// distribution, times the block's scale, its largest magnitude. 256 scales are a unit, 16,384
// weights: less the mean of all scales of the tensor they are one of 256 numbers (the signed
// dynamic map of Dettmers, "8-bit approximations for parallelism in deep learning", 2015) times the
// largest of their magnitudes. So a unit is decoded by itself, from
//   bytes 0-3    f32, the largest magnitude of its scales less the offset
//   bytes 4-7    f32, the offset: the mean of the tensor's scales
//   bytes 64-    256 codes of scales
//   bytes 320-   8,192 bytes of two weights each, the first in the upper half
// Without double quantisation a unit is
//   bytes 0-     256 scales in f32
//   bytes 1024-  8,192 bytes of two weights each
// A tensor's last unit may be partly filled; what is behind has scale and codes of zeros.
#ifndef STRATA_KERNELS_NF4_H_
#define STRATA_KERNELS_NF4_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

inline constexpr int64_t kNf4Block = 64;
inline constexpr int64_t kNf4UnitBlocks = 256;
inline constexpr int64_t kNf4Unit = kNf4Block * kNf4UnitBlocks;  // weights
inline constexpr int64_t kNf4UnitBytes = 64 + kNf4UnitBlocks + kNf4Unit / 2;
inline constexpr int64_t kNf4F32UnitBytes = 4 * kNf4UnitBlocks + kNf4Unit / 2;

// The 16 numbers of weights and the 256 of scales, ascending.
const std::array<float, 16>& Nf4Numbers();
const std::array<float, 256>& Nf4ScaleNumbers();

// The sum of the scales of the blocks that `count` weights make, of which the last may be short.
double SumOfNf4Scales(const float* weights, int64_t count);

// `count` weights, at most a unit, become one. `offset`: the mean of the tensor's scales.
void QuantiseNf4Unit(const float* weights, int64_t count, float offset, std::byte* unit);

// The same with scales in f32.
void QuantiseNf4F32Unit(const float* weights, int64_t count, std::byte* unit);

// The first `count` weights of units that follow each other. T: float, BFloat16, Float16.
template <typename T>
void DequantiseNf4(const Context& context, const std::byte* units, int64_t count, T* weights);
// The same of units with scales in f32.
template <typename T>
void DequantiseNf4F32(const Context& context, const std::byte* units, int64_t count, T* weights);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_NF4_H_
