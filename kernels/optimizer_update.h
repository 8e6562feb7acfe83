// Updates of weights, moments and gradients in any of their types (kernels/state_format.h): what
// the optimizers' own files have in common.
#ifndef STRATA_KERNELS_OPTIMIZER_UPDATE_H_
#define STRATA_KERNELS_OPTIMIZER_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/state_format.h"

namespace strata::kernels {

inline constexpr int kMostMoments = 2;

// Version s and s + 1, possibly in the same bytes, of all elements that an op updates.
struct NumbersOfUpdate {
  NumberType gradient_type = NumberType::kF32;
  const std::byte* gradient = nullptr;
  Weights weights, next_weights;  // of the first only what tells the master is read
  std::array<Moments, kMostMoments> moments, next_moments;  // as many as the optimizer has
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_OPTIMIZER_UPDATE_H_
