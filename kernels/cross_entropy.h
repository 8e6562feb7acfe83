// Softmax cross entropy over rows of logits, in nats, for chunks of a batch: the loss is summed,
// not averaged, and does not depend on how the batch is cut into chunks.
#ifndef STRATA_KERNELS_CROSS_ENTROPY_H_
#define STRATA_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

int64_t CrossEntropyWorkspaceBytes(int64_t rows);

// logits[n, V], targets[n] (negative: the row is ignored). Adds the rows' losses to *loss in
// ascending row order, and turns logits into their gradient in place: (softmax - onehot(target)) *
// scale, zeros in ignored rows. scale is 1 / trained tokens of the global batch.
void CrossEntropyForwardBackward(const Context& context, int64_t rows, int64_t vocab, float scale,
                                 const int32_t* targets, float* logits, double* loss,
                                 void* workspace);

// Only the loss.
void CrossEntropyForward(const Context& context, int64_t rows, int64_t vocab,
                         const int32_t* targets, const float* logits, double* loss,
                         void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CROSS_ENTROPY_H_
