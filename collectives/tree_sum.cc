#include "collectives/tree_sum.h"

#include <algorithm>
#include <cstring>

namespace strata::collectives {
namespace {

// Elements that are summed over all leaves before the next: a few leaves of it stay in the
// first-level cache.
constexpr int64_t kChunk = 1024;

// to[k] = a[k] + b[k]; `to` may be a or b, never shifted against them.
template <typename T>
inline void Add(const T* a, const T* b, T* to, int64_t count) {
#pragma GCC ivdep
  for (int64_t k = 0; k < count; ++k) to[k] = a[k] + b[k];
}

}  // namespace

template <typename T>
void TreeSum(absl::Span<T* const> leaves, int kept, int64_t begin, int64_t end, T* out,
             absl::Span<T*> nodes) {
  for (int64_t from = begin; from < end; from += kChunk) {
    const int64_t count = std::min(kChunk, end - from);
    for (size_t i = 0; i < leaves.size(); ++i) nodes[i] = leaves[i] + from;
    const T* const read_only = nodes[kept];
    size_t n = leaves.size();
    if (n == 1 && nodes[0] != out + from) std::memcpy(out + from, nodes[0], count * sizeof(T));
    while (n > 1) {
      const size_t pairs = n / 2;
      for (size_t i = 0; i < pairs; ++i) {
        T* const a = nodes[2 * i];
        T* const b = nodes[2 * i + 1];
        T* const to = n == 2 ? out + from : (a == read_only ? b : a);
        Add(a, b, to, count);
        nodes[i] = to;
      }
      if (n % 2 == 1) nodes[pairs] = nodes[n - 1];
      n = pairs + n % 2;
    }
  }
}

template <typename T>
void NarrowTreeSum(absl::Span<T* const> leaves, int64_t begin, int64_t end, T* out) {
  // Sums of 2^k leaves that wait for their like, the largest first: what bottom-up pairing makes of
  // leaves that come one after the other.
  constexpr int kMostWaiting = 16;
  constexpr int64_t kNarrowChunk = 256;
  float waiting[kMostWaiting][kNarrowChunk];
  for (int64_t from = begin; from < end; from += kNarrowChunk) {
    const int64_t count = std::min(kNarrowChunk, end - from);
    int depth = 0;
    const auto join = [&] {
      --depth;
      Add(waiting[depth - 1], waiting[depth], waiting[depth - 1], count);
    };
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const T* const numbers = leaves[leaf] + from;
      float* const to = waiting[depth++];
      for (int64_t k = 0; k < count; ++k) to[k] = kernels::ToFloat(numbers[k]);
      for (size_t sums = leaf + 1; sums % 2 == 0; sums /= 2) join();
    }
    while (depth > 1) join();
    for (int64_t k = 0; k < count; ++k) out[from + k] = kernels::FromFloat<T>(waiting[0][k]);
  }
}

template void NarrowTreeSum<kernels::BFloat16>(absl::Span<kernels::BFloat16* const>, int64_t,
                                               int64_t, kernels::BFloat16*);
template void NarrowTreeSum<kernels::Float16>(absl::Span<kernels::Float16* const>, int64_t, int64_t,
                                              kernels::Float16*);
template void TreeSum<float>(absl::Span<float* const>, int, int64_t, int64_t, float*,
                             absl::Span<float*>);
template void TreeSum<double>(absl::Span<double* const>, int, int64_t, int64_t, double*,
                              absl::Span<double*>);

}  // namespace strata::collectives
