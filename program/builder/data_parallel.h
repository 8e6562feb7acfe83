// Data-parallel programs: gradient accumulation, virtual shards with the fixed tree, ZeRO-1.
//
// Train: load; per virtual shard (left to right) and micro-batch: forward and backward of every
// layer; partial gradients of virtual shards combine in the fixed tree as they complete; each set's
// gradient is reduced over the data group as soon as its last producer has ended on the last
// micro-batch; every rank sums the squares of its ranges, all gather losses and norms; clip factor;
// update (of the whole set, or of the rank's range under ZeRO-1, whose all-gather then hides under
// the next step's forward). Evaluate: forward and loss only, over the same tree.
#ifndef STRATA_PROGRAM_BUILDER_DATA_PARALLEL_H_
#define STRATA_PROGRAM_BUILDER_DATA_PARALLEL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/assembler.h"
#include "program/ir/layer_graph.h"
#include "program/ir/program.h"

namespace strata::program {

struct DataParallelOptions {
  int data = 1;                  // ranks of the data group
  int virtual_shards = 1;        // V: see DESIGN, Determinism; a multiple of data
  int64_t global_batch = 0;      // sequences per step
  int64_t evaluate_batch = 0;    // sequences per evaluation; 0: no evaluate program
  bool shard_optimizer = false;  // ZeRO-1
  double gradient_clip = 0;      // 0: off
  Tier tier = Tier::kHost;       // of everything
  ScratchBytes scratch;          // of the collective backend; required when data > 1
};

// Which validation sequences a virtual shard evaluates: [v · sequences, (v + 1) · sequences) of
// those asked for, in `rows` rows of whole micro-batches; the rows beyond are masked.
struct EvaluateShape {
  int64_t sequences = 0;
  int64_t rows = 0;
};
EvaluateShape ShapeOfEvaluation(int64_t evaluate_batch, int virtual_shards, int64_t micro_batch);

// The update of one set over `count` elements (the whole flat layout, or one rank's range): formals
// kParameters (0 in, 1 out by version), kState, kGradients, kScalars.
using UpdateEmitter = std::function<Template(const ParameterSet& set, int64_t count)>;

// Where the builder put what the engine's owner reads and writes by name.
struct DataParallelSlots {
  int scalars = -1;
  std::vector<int> parameters;              // per set
  std::vector<std::array<int, 2>> moments;  // per set; -1 where frozen
  std::vector<int> constants;               // per LayerGraph::constants
};

struct DataParallelPrograms {
  ProgramSet set;  // programs: train, and evaluate when asked for; laid out
  DataParallelSlots slots;
};

// Errors: InvalidArgument where the batch does not divide. Sets of the graph are flattened here for
// V ranges.
absl::StatusOr<DataParallelPrograms> BuildDataParallel(LayerGraph graph,
                                                       const UpdateEmitter& update,
                                                       const DataParallelOptions& options);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_DATA_PARALLEL_H_
