// A small layer graph with round sizes for tests of the composer and passes: its ops name real
// kinds but are never executed.
//
// Layers: embedding {table}; `blocks` × block {its own set}; head {norm; and the table too when
// tied, else its own}. Per pass (micro-batch): boundaries of kBoundary bytes; a block saves kSaved,
// uses kForwardLocal and kBackwardLocal as locals, stashes kStash between its split backwards; a
// block's set has kBlockSet bytes, table and head kTableSet.
#ifndef STRATA_PROGRAM_TESTING_TOY_GRAPH_H_
#define STRATA_PROGRAM_TESTING_TOY_GRAPH_H_

#include "program/compose/plan.h"
#include "program/ir/layer_graph.h"

namespace strata::program {

namespace toy {
inline constexpr int64_t kBoundary = 4096;
inline constexpr int64_t kSaved = 3 * 4096;
inline constexpr int64_t kForwardLocal = 2 * 4096;
inline constexpr int64_t kBackwardLocal = 5 * 4096;
inline constexpr int64_t kStash = 2 * 4096;
inline constexpr int64_t kBlockSet = 16 * 4096;
inline constexpr int64_t kTableSet = 8 * 4096;
inline constexpr int64_t kNormSet = 4096;
inline constexpr int64_t kCache = 4 * 4096;
inline constexpr int64_t kLogits = 4096;
}  // namespace toy

struct ToyOptions {
  int blocks = 2;
  int64_t micro_batch = 1;
  int64_t sequence = 16;
  bool tied = false;
};

LayerGraph ToyGraph(const ToyOptions& options);

// An UpdateEmitter: reads and writes parameters and both moments.
Template ToyUpdate(const ParameterSet& set, const program::UpdateRange& range);

// Scratch like a tree reduction's: the other members' pieces.
int64_t ToyScratch(CollectiveOp op, DType type, int64_t bytes, int group_size);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_TESTING_TOY_GRAPH_H_
