// Softmax cross entropy over rows of logits, in nats, for chunks of a batch: the loss is summed,
// not averaged, and does not depend on how the batch is cut into chunks. Computed in f32; gradients
// are rounded once.
#ifndef STRATA_KERNELS_CROSS_ENTROPY_H_
#define STRATA_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

struct LossShape {
  int64_t rows = 0;   // N
  int64_t vocab = 0;  // V
  // 0: none. Else the loss is that of softcap * tanh(logits / softcap) (Gemma Team, "Gemma 2",
  // 2024, section 2); gradients are those towards the logits.
  float softcap = 0;
};

int64_t CrossEntropyWorkspaceBytes(int64_t rows);

// logits[N, V], targets[N] (negative: the row is ignored). Adds the rows' losses to *loss in
// ascending row order, and turns logits into their gradient in place: (softmax - onehot(target)) *
// scale, zeros in ignored rows. scale is 1 / trained tokens of the global batch.
template <typename T>
void CrossEntropyForwardBackward(const Context& context, const LossShape& shape, float scale,
                                 const int32_t* targets, T* logits, double* loss, void* workspace);

// Only the loss.
template <typename T>
void CrossEntropyForward(const Context& context, const LossShape& shape, const int32_t* targets,
                         const T* logits, double* loss, void* workspace);

// With the vocabulary cut over ranks: each has the columns [first, first + columns) of the logits.
struct VocabularyPart {
  int64_t rows = 0;  // N
  int64_t columns = 0;
  int64_t first = 0;
  float softcap = 0;    // as above
  int64_t padding = 0;  // of the columns, the last ones that are no token's: gradients of 0
};

// statistics[N, 3]: of the part's logits, capped ones if so, in each row the maximum, Σ exp(logit -
// maximum), and the target's logit, 0 where the target is of another part.
template <typename T>
void CrossEntropyStatistics(const Context& context, const VocabularyPart& part,
                            const int32_t* targets, const T* logits, float* statistics);

// CrossEntropyForwardBackward on one part, with the statistics[parts, N, 3] of all of them. The
// loss is that of whole rows, the same on every rank.
template <typename T>
void CrossEntropyFinish(const Context& context, const VocabularyPart& part, int64_t parts,
                        float scale, const int32_t* targets, const float* statistics, T* logits,
                        double* loss);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CROSS_ENTROPY_H_
