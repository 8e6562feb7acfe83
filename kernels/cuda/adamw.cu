#include <cmath>

#include "kernels/cuda/adamw.h"
#include "kernels/cuda/update.cuh"

namespace strata::kernels::cuda {
namespace {

struct AdamWRule {
  static constexpr int kMoments = 2;
  static constexpr bool kInBlocks = true;
  struct Rates {
    AdamWRates of;
    double log_beta1, log_beta2;
  };

  AdamWRule() = default;
  // In f64, rounded once, as PyTorch does. 1 - beta^step is -expm1(step · log(beta)).
  __device__ AdamWRule(const Rates& rates, const UpdateScalars& scalars, bool decay) {
    const AdamWRates& of = rates.of;
    const double rate = *scalars.learning_rate, step = *scalars.applied + 1;
    keep = static_cast<float>(decay ? 1 - rate * of.weight_decay : 1);
    beta1_rest = static_cast<float>(1 - of.beta1);
    beta2 = static_cast<float>(of.beta2);
    beta2_rest = static_cast<float>(1 - of.beta2);
    root_bias2 = Divisor(static_cast<float>(sqrt(-expm1(step * rates.log_beta2))));
    epsilon = static_cast<float>(of.epsilon);
    step_size = static_cast<float>(rate / -expm1(step * rates.log_beta1));
    factor = static_cast<float>(*scalars.clip_factor);
    is_quick = epsilon >= 0x1p-60F && epsilon <= 1 && root_bias2.of >= 0x1p-10F;
  }

  __device__ __forceinline__ void operator()(float gradient, float& p, float (&moments)[2]) const {
    ToMoments(gradient, p, moments);
    const float root = __fdiv_rn(__fsqrt_rn(moments[1]), root_bias2.of);
    p = __fmaf_rn(-step_size, __fdiv_rn(moments[0], __fadd_rn(root, epsilon)), p);
  }
  // The denominator is in [2^-60, 2^26]: its quotients are normal numbers, and what is left of
  // them, too.
  __device__ __forceinline__ bool Quickly(float gradient, float& p, float (&moments)[2]) const {
    ToMoments(gradient, p, moments);
    const float root = root_bias2.Into(QuickRoot(moments[1]));
    p = __fmaf_rn(-step_size, QuickQuotient(moments[0], __fadd_rn(root, epsilon)), p);
    return IsWithin<-100, 60>(moments[0]) & IsWithin<-100, 30>(moments[1]);
  }
  __device__ __forceinline__ void ToMoments(float gradient, float& p, float (&moments)[2]) const {
    float &m = moments[0], &v = moments[1];
    const float g = __fmul_rn(gradient, factor);
    p = __fmul_rn(p, keep);
    m = __fmaf_rn(beta1_rest, __fsub_rn(g, m), m);
    v = __fmaf_rn(__fmul_rn(beta2_rest, g), g, __fmul_rn(v, beta2));
  }

  float keep, beta1_rest, beta2, beta2_rest, epsilon, step_size, factor;
  Divisor root_bias2;
  bool is_quick;
};

struct FixUpRule : AdamWRule {
  static constexpr bool kInBlocks = false;

  FixUpRule() = default;
  __device__ FixUpRule(const Rates& rates, const UpdateScalars& scalars, bool decay)
      : AdamWRule(rates, scalars, decay), scale(static_cast<float>(1 / (1 - rates.of.beta1))) {}

  __device__ __forceinline__ void operator()(float speculative_m, float& p,
                                             float (&moments)[2]) const {
    AdamWRule::operator()(GradientOf(speculative_m, moments[0]), p, moments);
  }
  __device__ __forceinline__ bool Quickly(float speculative_m, float& p,
                                          float (&moments)[2]) const {
    return AdamWRule::Quickly(GradientOf(speculative_m, moments[0]), p, moments);
  }
  __device__ __forceinline__ float GradientOf(float speculative_m, float m) const {
    return __fmaf_rn(__fsub_rn(speculative_m, m), scale, m);
  }

  float scale;
};

AdamWRule::Rates RatesOf(const AdamWRates& rates) {
  return {rates, std::log(rates.beta1), std::log(rates.beta2)};
}

}  // namespace

absl::Status AdamW(cudaStream_t stream, const AdamWRates& rates, const UpdateScalars& scalars,
                   absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers) {
  return LaunchUpdate<AdamWRule>("AdamW", stream, RatesOf(rates), scalars, segments, numbers);
}

absl::Status AdamWFixUp(cudaStream_t stream, const AdamWRates& rates, const UpdateScalars& scalars,
                        absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers) {
  if (numbers.gradient_type != NumberType::kF32 ||
      numbers.moments[0].format != MomentFormat::kF32 ||
      numbers.moments[1].format != MomentFormat::kF32) {
    return absl::InvalidArgumentError("AdamW's correction is of moments in f32");
  }
  return LaunchUpdate<FixUpRule>("AdamW's correction", stream, RatesOf(rates), scalars, segments,
                                 numbers);
}

}  // namespace strata::kernels::cuda
