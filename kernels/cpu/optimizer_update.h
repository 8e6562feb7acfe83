// Elements of an update in f32, a block at a time. Internal to kernels.
#ifndef STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_
#define STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/optimizer_update.h"

namespace strata::kernels {

// `rule(size, gradient, weights, moment 0, moment 1)` makes version s + 1 of f32 numbers in place;
// called for blocks of [begin, end), which begin at multiples of kMomentBlock from `begin` on.
template <int kMoments, typename Rule>
void UpdateInBlocks(const Context& context, const NumbersOfUpdate& numbers, int64_t begin,
                    int64_t end, const Rule& rule) {
  static_assert(kElementsPerTask % kMomentBlock == 0);
  ForBlocks(context, end - begin, kElementsPerTask, [&](int64_t task_begin, int64_t task_end) {
    float gradient[kMomentBlock], weights[kMomentBlock], moments[kMostMoments][kMomentBlock];
    for (int64_t at = begin + task_begin; at < begin + task_end; at += kMomentBlock) {
      const int64_t size = std::min(kMomentBlock, begin + task_end - at);
      ReadNumbers(numbers.gradient_type, numbers.gradient, at, size, gradient);
      ReadMaster(numbers.weights, at, size, weights);
      for (int m = 0; m < kMoments; ++m) ReadMoments(numbers.moments[m], at, size, moments[m]);
      rule(size, gradient, weights, moments[0], moments[1]);
      WriteMaster(numbers.next_weights, at, size, weights);
      for (int m = 0; m < kMoments; ++m) {
        WriteMoments(numbers.next_moments[m], at, size, moments[m]);
      }
    }
  });
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_
