#include "kernels/cuda/sgd.h"
#include "kernels/cuda/update.cuh"

namespace strata::kernels::cuda {
namespace {

struct SgdRule {
  static constexpr int kMoments = 1;
  static constexpr bool kInBlocks = true;
  using Rates = SgdRates;

  SgdRule() = default;
  __device__ SgdRule(const Rates& rates, const UpdateScalars& scalars, bool has_decay)
      : rate(static_cast<float>(*scalars.learning_rate)),
        momentum(static_cast<float>(rates.momentum)),
        decay(static_cast<float>(has_decay ? rates.weight_decay : 0)),
        factor(static_cast<float>(*scalars.clip_factor)) {}

  __device__ void operator()(float gradient, float& w, float (&moments)[1]) const {
    const float g = __fmaf_rn(decay, w, __fmul_rn(gradient, factor));
    moments[0] = __fmaf_rn(momentum, moments[0], g);
    w = __fmaf_rn(-rate, moments[0], w);
  }
  __device__ bool Quickly(float gradient, float& w, float (&moments)[1]) const {
    (*this)(gradient, w, moments);
    return true;
  }

  static constexpr bool is_quick = true;
  float rate, momentum, decay, factor;
};

}  // namespace

absl::Status Sgd(cudaStream_t stream, const SgdRates& rates, const UpdateScalars& scalars,
                 absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers) {
  return LaunchUpdate<SgdRule>("SGD", stream, rates, scalars, segments, numbers);
}

}  // namespace strata::kernels::cuda
