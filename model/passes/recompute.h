// Which values a layer's forward saves for its backward, and which are made again: a property of
// its templates alone. Whatever is chosen, gradients have the same bits, since a replay executes
// the forward's own ops.
//
// A value is savable when a backward node reads it. A replay costs FLOPs (products and attention)
// or none (elementwise work, whose bytes cost about as much time as reading what was saved):
//   value            floats per row   FLOPs to replay       per float
//   norm1, norm2     C                –                     –
//   activation       F                –                     –
//   rstd1, rstd2     1                –                     (a norm's replay reads it)
//   attention, …     H·D + H          2·T·H·D               2·T
//   qkv              (H + 2K)·D       2·C·(H + 2K)·D        2·C
//   gate_up          2F               4·C·F                 2·C
//   residual         C                2·H·D·C               2·H·D
// kNone saves everything that FLOPs would have to make again, and the statistics. Attention is what
// is cheapest to replay per byte while T < C (Korthikanti et al., 2022, §5, whose T² scores are not
// here at all): kSelective replays it, reading the saved qkv; beyond T = C it is the dearest, and a
// list of names does better. kFull saves nothing: the backward reads the layer's input.
#ifndef STRATA_MODEL_PASSES_RECOMPUTE_H_
#define STRATA_MODEL_PASSES_RECOMPUTE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/graph/graph.h"

namespace strata::model {

inline constexpr char kAllValues[] = "all";

struct RecomputePlan {
  enum class Mode : uint8_t { kNone, kSelective, kFull } mode = Mode::kNone;
  // With kNone: exactly these values are saved; kAllValues: each. Empty: as kNone says.
  std::vector<std::string> save;
  // The blocks that the plan is for; the others save as kNone. -1: to the last.
  int64_t first_layer = 0;
  int64_t last_layer = -1;

  bool covers(int64_t layer) const {
    return layer >= first_layer && (last_layer < 0 || layer <= last_layer);
  }
};

struct SavedValue {
  std::string name;
  int64_t bytes = 0;        // per token and layer, of all ranks of a tensor group together
  double replay_flops = 0;  // per token, with everything else at hand
  bool saved_by_default = false;
};

// What of `reads` (ForwardReads) is saved.
std::set<ValueId> ChooseSaved(const Graph& graph, const std::vector<ValueId>& reads,
                              const RecomputePlan& plan);

// The savable values of a differentiated graph, at this sequence length.
std::vector<SavedValue> DescribeSavable(const Graph& graph, int64_t sequence);

// InvalidArgument: a name that is not savable, names beside a mode, or layers that are not there.
absl::Status CheckRecompute(const RecomputePlan& plan, const std::vector<SavedValue>& savable,
                            int64_t layers);

// FLOPs per row and ranks together to make the value from those at hand; given values are.
double ReplayFlops(const Graph& graph, ValueId value, const std::set<ValueId>& at_hand,
                   int64_t sequence);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_RECOMPUTE_H_
