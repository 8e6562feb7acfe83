#include "kernels/init.h"

#include "common/rng.h"
#include "kernels/cpu/parallel.h"
#include "kernels/elementwise.h"

namespace strata::kernels {

void InitNormal(const Context& context, uint64_t key, float std, int64_t begin, int64_t end,
                float* values) {
  ForBlocks(context, end - begin, kElementsPerTask, [=](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) values[i] = std * common::NormalAt(key, begin + i);
  });
}

void InitConstant(const Context& context, float value, int64_t count, float* values) {
  Fill(context, count, value, values);
}

}  // namespace strata::kernels
