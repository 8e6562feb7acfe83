#include "kernels/convert.h"

#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

// NaN becomes the one that FromFloat<Float16> makes of it: quiet, and only its sign is left.
simd::Vec WithPlainNan(simd::Vec v) {
  const simd::Vec nan = simd::Or(simd::And(v, simd::Set(-0.0f)), simd::Set(__builtin_nanf("")));
  return simd::Choose(simd::IsNan(v), nan, v);
}

}  // namespace

template <typename From, typename To>
void Convert(const Context& context, int64_t count, const From* src, To* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
    const From* from = src + begin;
    To* to = dst + begin;
    simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
      simd::Vec value = lanes.Load(from + i);
      if constexpr (std::is_same_v<To, Float16>) value = WithPlainNan(value);
      lanes.Store(to + i, value);
    });
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL_OF((typename From, typename To), (From, To), void, Convert, const Context&, int64_t,
                 const From*, To*)
STRATA_INSTANCE(Convert<float, BFloat16>)
STRATA_INSTANCE(Convert<float, Float16>)
STRATA_INSTANCE(Convert<BFloat16, float>)
STRATA_INSTANCE(Convert<Float16, float>)

}  // namespace strata::kernels
