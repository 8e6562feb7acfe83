// Initial values of parameters. An element depends on its index in the whole tensor only, so a
// shard makes exactly its part of what one rank alone would make.
#ifndef STRATA_KERNELS_INIT_H_
#define STRATA_KERNELS_INIT_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// values[i - begin] = std * common::NormalAt(key, i) for i in [begin, end).
void InitNormal(const Context& context, uint64_t key, float std, int64_t begin, int64_t end,
                float* values);

// values[0, count) = value.
void InitConstant(const Context& context, float value, int64_t count, float* values);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_INIT_H_
