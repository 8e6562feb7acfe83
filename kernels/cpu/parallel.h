// Cutting work into tasks by its shape, and workspace into parts.
#ifndef STRATA_KERNELS_CPU_PARALLEL_H_
#define STRATA_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// Elements of a flat range per task: long enough to hide the cost of a task (about 100 ns).
inline constexpr int64_t kElementsPerTask = 16384;

inline constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// body(begin, end) over [0, count) in blocks of `block`.
template <typename Body>
void ForBlocks(const Context& context, int64_t count, int64_t block, const Body& body) {
  context.pool->ParallelFor(CeilDiv(count, block), [&](int64_t task, int) {
    body(task * block, std::min(count, (task + 1) * block));
  });
}

// Rows per task when a row has `columns` elements.
inline int64_t RowsPerTask(int64_t columns) {
  return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, columns));
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_PARALLEL_H_
