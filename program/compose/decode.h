// Decode: prefill and decode programs over a cache of keys and values, of one rank or of the stages
// of a pipeline, each with the parameters and caches of its own layers.
#ifndef STRATA_PROGRAM_COMPOSE_DECODE_H_
#define STRATA_PROGRAM_COMPOSE_DECODE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/plan.h"
#include "program/ir/layer_graph.h"
#include "program/ir/program.h"

namespace strata::program {

struct DecodeSlots {
  int scalars = -1;
  int logits = -1;
  std::vector<int> parameters;  // per ProgramSet::sets, those of the stage
  std::vector<int> constants;   // per LayerGraph::constants; -1: not used on this stage
};

struct DecodePrograms {
  ProgramSet set;  // programs: prefill (a chunk of rows), decode (one row); laid out
  DecodeSlots slots;
};

struct DecodeOptions {
  int stages = 1;
  Tier tier = Tier::kHost;  // where kernels compute
  // Of parameters, beyond the device only with that tier: they are brought for their layers, once a
  // program.
  Place parameters;
  Streaming streaming;
  int64_t device_limit = 0;  // see Plan
};

// Inference has no optimizer and no gradients: parameters, caches, one chunk's activations. Of
// `stages` (ranks of the pipeline group, in order) each gets layers of about equally many parameter
// bytes, as these are what a decoded token costs. The last one's logits are broadcast: every stage
// ends a step with them, so that all choose the same next token. InvalidArgument: more stages than
// there are layers.
absl::StatusOr<std::vector<DecodePrograms>> BuildDecode(const LayerGraph& graph,
                                                        const DecodeOptions& options);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_DECODE_H_
