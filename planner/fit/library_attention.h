// What attention by a library (cuDNN's) takes of a device beside a rank's arenas.
#ifndef STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_
#define STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_

#include <cstdint>

namespace strata::planner {

// At most: what needs more is computed in smaller pieces, or by Strata's kernels.
inline constexpr int64_t kLibraryAttentionBytes = int64_t{640} << 20;

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_LIBRARY_ATTENTION_H_
