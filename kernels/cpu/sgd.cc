#include "kernels/sgd.h"

#include "kernels/cpu/optimizer_update.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {

using simd::Vec;

void Sgd(const Context& context, int64_t begin, int64_t end, const SgdParams& params,
         const NumbersOfUpdate& numbers) {
  const auto set = [](double x) { return simd::Set(static_cast<float>(x)); };
  const Vec rate = set(params.learning_rate), momentum = set(params.momentum);
  const Vec decay = set(params.weight_decay), factor = set(params.grad_factor);
  UpdateInBlocks<1>(
      context, numbers, begin, end,
      [&](int64_t size, const float* gradient, const UpdateBlock& now, const UpdateBlock& next) {
        simd::ForEachVec(size, [&](int64_t i, auto lanes) {
          const Vec w = lanes.Load(now.weights + i);
          Vec g = simd::Mul(lanes.Load(gradient + i), factor);
          g = simd::MulAdd(decay, w, g);
          const Vec b = simd::MulAdd(momentum, lanes.Load(now.moments[0] + i), g);
          lanes.Store(next.moments[0] + i, b);
          lanes.Store(next.weights + i, simd::NegMulAdd(rate, b, w));
        });
      });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(void, Sgd, const Context&, int64_t, int64_t, const SgdParams&,
                    const NumbersOfUpdate&)

}  // namespace strata::kernels
