// Biases: one vector that is added to every row.
#ifndef STRATA_KERNELS_BIAS_H_
#define STRATA_KERNELS_BIAS_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// y[N, W] += b[W] in every row.
template <typename T>
void AddBias(const Context& context, int64_t rows, int64_t width, const T* b, T* y);

int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width);

// db[W] += the sum of dy[N, W] over rows: blocks of rows first.
template <typename T>
void BiasGradient(const Context& context, int64_t rows, int64_t width, const T* dy, float* db,
                  void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_BIAS_H_
