#include "kernels/convert.h"

#include "kernels/cpu/parallel.h"

namespace strata::kernels {

template <typename From, typename To>
void Convert(const Context& context, int64_t count, const From* src, To* dst) {
  ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) dst[i] = FromFloat<To>(ToFloat(src[i]));
  });
}

template void Convert(const Context&, int64_t, const float*, BFloat16*);
template void Convert(const Context&, int64_t, const float*, Float16*);
template void Convert(const Context&, int64_t, const BFloat16*, float*);
template void Convert(const Context&, int64_t, const Float16*, float*);

}  // namespace strata::kernels
