// Numbers in another type.
#ifndef STRATA_KERNELS_CONVERT_H_
#define STRATA_KERNELS_CONVERT_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// dst = src, rounded to the nearest, ties to even. From and to are float, BFloat16 or Float16, and
// differ; one of them is float.
template <typename From, typename To>
void Convert(const Context& context, int64_t count, const From* src, To* dst);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CONVERT_H_
