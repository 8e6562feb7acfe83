// What every CPU kernel runs on. All kernels are f32, row-major, allocate nothing and give the same
// bits for every number of threads: work is cut by its shape alone, and sums across rows are taken
// over fixed blocks that are combined in a fixed order in workspace of the caller's.
//
// Legend: B batch, T sequence, N = B*T rows, C hidden, H query heads, K key/value heads, D head
// size, F feed-forward size, V vocabulary. Tokens and targets are int32. Buffers may not overlap
// unless a header says so. Workspaces are aligned to kWorkspaceAlignment and keep nothing between
// calls. Shapes must be right: a kernel trusts them.
#ifndef STRATA_KERNELS_CONTEXT_H_
#define STRATA_KERNELS_CONTEXT_H_

#include <cstdint>

#include "device/thread_pool.h"

namespace strata::kernels {

struct Context {
  device::ThreadPool* pool = nullptr;
};

inline constexpr int64_t kWorkspaceAlignment = 64;

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CONTEXT_H_
