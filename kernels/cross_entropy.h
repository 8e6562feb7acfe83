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

// With the vocabulary cut over ranks: each has the columns [first, first + columns) of the logits.
struct VocabularyPart {
  int64_t rows = 0;  // N
  int64_t columns = 0;
  int64_t first = 0;
};

// statistics[N, 3]: of the part's logits in each row the maximum, Σ exp(logit - maximum), and the
// target's logit, 0 where the target is of another part.
void CrossEntropyStatistics(const Context& context, const VocabularyPart& part,
                            const int32_t* targets, const float* logits, float* statistics);

// CrossEntropyForwardBackward on one part, with the statistics[parts, N, 3] of all of them. The
// loss is that of whole rows, the same on every rank.
void CrossEntropyFinish(const Context& context, const VocabularyPart& part, int64_t parts,
                        float scale, const int32_t* targets, const float* statistics, float* logits,
                        double* loss);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CROSS_ENTROPY_H_
