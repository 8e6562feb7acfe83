// Elements of an update in f32, a block at a time. Internal to kernels.
#ifndef STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_
#define STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/optimizer_update.h"

namespace strata::kernels {

// What a rule reads or writes of a block: f32 numbers.
struct UpdateBlock {
  float* weights = nullptr;
  float* moments[kMostMoments] = {};
};

// `rule(size, gradient, now, next)` makes version s + 1 from version s, possibly in its place;
// called for blocks of [begin, end), which begin at multiples of kMomentBlock from `begin` on.
// What is f32 in memory is worked on there; everything else passes through the first-level cache.
template <int kMoments, typename Rule>
void UpdateInBlocks(const Context& context, const NumbersOfUpdate& numbers, int64_t begin,
                    int64_t end, const Rule& rule) {
  static_assert(kElementsPerTask % kMomentBlock == 0);
  const auto* const gradients = numbers.gradient_type == NumberType::kF32
                                    ? reinterpret_cast<const float*>(numbers.gradient)
                                    : nullptr;
  float* const masters = MasterInF32(numbers.weights);
  float* const next_masters = MasterInF32(numbers.next_weights);
  // Weights beside f32 masters are only written here, and more of them than caches hold are read
  // from memory afterwards.
  constexpr int64_t kMany = int64_t{1} << 20;
  const bool streams =
      numbers.next_weights.master_format == MasterFormat::kF32 && end - begin >= kMany;
  ForBlocks(context, end - begin, kElementsPerTask, [&](int64_t task_begin, int64_t task_end) {
    float gradient[kMomentBlock], weights[kMomentBlock], moments[kMostMoments][kMomentBlock];
    for (int64_t at = begin + task_begin; at < begin + task_end; at += kMomentBlock) {
      const int64_t size = std::min(kMomentBlock, begin + task_end - at);
      const auto place = [at](float* in_f32, float* buffer) {
        return in_f32 == nullptr ? buffer : in_f32 + at;
      };
      UpdateBlock now{.weights = place(masters, weights)};
      UpdateBlock next{.weights = place(next_masters, weights)};
      if (gradients == nullptr) {
        ReadNumbers(numbers.gradient_type, numbers.gradient, at, size, gradient);
      }
      if (now.weights == weights) ReadMaster(numbers.weights, at, size, weights);
      for (int m = 0; m < kMoments; ++m) {
        now.moments[m] = place(MomentsInF32(numbers.moments[m]), moments[m]);
        next.moments[m] = place(MomentsInF32(numbers.next_moments[m]), moments[m]);
        if (now.moments[m] == moments[m]) ReadMoments(numbers.moments[m], at, size, moments[m]);
      }
      rule(size, gradients == nullptr ? gradient : gradients + at, now, next);
      if (next.weights == weights) {
        WriteMaster(numbers.next_weights, at, size, weights);
      } else if (numbers.next_weights.master_format != MasterFormat::kNone) {
        const auto write = streams ? &StreamWeights : &WriteWeights;
        write(numbers.next_weights, at, size, next.weights);
      }
      for (int m = 0; m < kMoments; ++m) {
        if (next.moments[m] != moments[m]) continue;
        WriteMoments(numbers.next_moments[m], at, size, moments[m]);
      }
    }
    if (streams) _mm_sfence();
  });
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_OPTIMIZER_UPDATE_H_
