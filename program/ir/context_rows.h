// Which rows of a sequence the ranks of a context group have. Of 2n equal blocks rank r of n has
// block r and block 2n − 1 − r, one early and one late: under a causal mask all have equal work, of
// their own keys and of every other rank's (the head-tail order of Ring Attention's successors;
// Brandon et al., "Striped Attention", 2023, §3, for the problem).
#ifndef STRATA_PROGRAM_IR_CONTEXT_ROWS_H_
#define STRATA_PROGRAM_IR_CONTEXT_ROWS_H_

#include <cstdint>
#include <vector>

namespace strata::program {

// How the ranks of a context group exchange keys and values: each its own to the next, n − 1 times;
// all to all ranks, once; or all of fewer heads (Jacobs et al., "DeepSpeed Ulysses", 2023).
enum class ContextMethod : uint8_t { kRing, kAllGather, kAllToAll };

// Rows that stand together, held from row `first` on.
struct ContextRun {
  int64_t first = 0, count = 0, position = 0;
};

// Of a sequence of `sequence` rows, which 2 · ranks divides (1 rank: any): in the order in which
// the rank holds them.
inline std::vector<ContextRun> ContextRuns(int64_t sequence, int64_t ranks, int64_t rank) {
  if (ranks == 1) return {{.first = 0, .count = sequence, .position = 0}};
  const int64_t block = sequence / (2 * ranks);
  return {{.first = 0, .count = block, .position = rank * block},
          {.first = block, .count = block, .position = (2 * ranks - 1 - rank) * block}};
}

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_CONTEXT_ROWS_H_
