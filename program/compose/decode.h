// Decode: prefill and decode programs of one rank over a cache of keys and values.
#ifndef STRATA_PROGRAM_COMPOSE_DECODE_H_
#define STRATA_PROGRAM_COMPOSE_DECODE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "program/ir/layer_graph.h"
#include "program/ir/program.h"

namespace strata::program {

struct DecodeSlots {
  int scalars = -1;
  int logits = -1;
  std::vector<int> parameters;
  std::vector<int> constants;
};

struct DecodePrograms {
  ProgramSet set;  // programs: prefill (a chunk of rows), decode (one row); laid out
  DecodeSlots slots;
};

// Inference has no optimizer and no gradients: parameters, caches, one chunk's activations.
absl::StatusOr<DecodePrograms> BuildDecode(LayerGraph graph, Tier tier);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_DECODE_H_
