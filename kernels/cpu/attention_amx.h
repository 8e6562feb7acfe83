// Attention of bf16 by AMX tiles, where they work (kernels/cpu/tiles_work.h): the problems and the
// results of attention by lanes, but that probabilities, and the gradients of scores, are rounded
// to bf16 before they are multiplied, as GPUs do (Dao, "FlashAttention-2", 2023). Scores, their
// exponentials and all sums are f32.
#ifndef STRATA_KERNELS_CPU_ATTENTION_AMX_H_
#define STRATA_KERNELS_CPU_ATTENTION_AMX_H_

#include <cstdint>

#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"
#include "kernels/number_types.h"

namespace strata::kernels::avx512::amx {

// Of a thread; no more than attention by lanes of AVX-512 needs at most for heads of that size,
// which is what ops/ reserves.
int64_t AttentionForwardFloats(int64_t head_size);
void AttentionForward(const Context& context, const AttentionProblem<BFloat16>& problem,
                      float* workspace);

// `rows`: of a sequence, at most, of all query heads of a key/value head.
int64_t AttentionBackwardFloats(int64_t head_size, int64_t rows);
void AttentionBackward(const Context& context, const AttentionBackwardProblem<BFloat16>& problem,
                       float* workspace);

}  // namespace strata::kernels::avx512::amx

#endif  // STRATA_KERNELS_CPU_ATTENTION_AMX_H_
