// Layer normalisation (Ba, Kiros and Hinton, "Layer Normalization", 2016, eq. 4):
// y = (x - mean) * rstd * w + b with rstd = 1 / sqrt(variance + epsilon) per row. Computed in f32
// and rounded once; statistics and the gradients of w and b are f32 for every T.
#ifndef STRATA_KERNELS_LAYERNORM_H_
#define STRATA_KERNELS_LAYERNORM_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

struct LayerNormShape {
  int64_t rows = 0;      // N
  int64_t channels = 0;  // C
};

// x[N, C], w[C], b[C] -> y[N, C], statistics[N, 2]: mean, rstd. y may be x.
template <typename T>
void LayerNormForward(const Context& context, const LayerNormShape& shape, float epsilon,
                      const T* x, const T* w, const T* b, T* y, float* statistics);

// The residual connection and the norm after it: sum = x + branch, y and statistics of sum. sum may
// be x or branch.
template <typename T>
void AddLayerNormForward(const Context& context, const LayerNormShape& shape, float epsilon,
                         const T* x, const T* branch, const T* w, const T* b, T* sum, T* y,
                         float* statistics);

// y of a forward again, the same bits, from the statistics that it wrote. y may be x.
template <typename T>
void LayerNormReplay(const Context& context, const LayerNormShape& shape, const T* x, const T* w,
                     const T* b, const float* statistics, T* y);

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormShape& shape);

// dx[N, C] = (accumulate_dx: +=) the gradient towards x; dw[C], db[C] += those towards w and b,
// unless dw is null, which needs no workspace. dx may be dy when it is not accumulated.
template <typename T>
void LayerNormBackward(const Context& context, const LayerNormShape& shape, const T* dy, const T* x,
                       const T* w, const float* statistics, bool accumulate_dx, T* dx, float* dw,
                       float* db, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_LAYERNORM_H_
