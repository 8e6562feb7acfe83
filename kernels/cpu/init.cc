#include "kernels/init.h"

#include "common/normal_series.h"
#include "kernels/cpu/parallel.h"
#include "kernels/elementwise.h"

namespace strata::kernels {

void InitNormal(const Context& context, uint64_t key, float std, int64_t begin, int64_t end,
                float* values) {
  ForBlocks(context, end - begin, kElementsPerTask, [=](int64_t first, int64_t last) {
    common::WriteNormals(key, static_cast<uint64_t>(begin + first), std,
                         absl::MakeSpan(values + first, static_cast<size_t>(last - first)));
  });
}

void InitConstant(const Context& context, float value, int64_t count, float* values) {
  Fill(context, count, value, values);
}

}  // namespace strata::kernels
