// What attention by a library (cuDNN's) takes of a device beside a rank's arenas.
#ifndef STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_
#define STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_

#include <cstdint>

namespace strata::planner {

// At most: what needs more is computed in smaller pieces, or by Strata's kernels.
inline constexpr int64_t kLibraryAttentionBytes = int64_t{640} << 20;

// Whether it has kernels for heads of this size, with scores as they are (kernels/cuda/cudnn, which
// asks for the same).
inline bool LibraryTakesHeads(int64_t head_size, double softcap) {
  return head_size % 8 == 0 && head_size <= 256 && softcap == 0;
}

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_
