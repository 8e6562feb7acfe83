// The walk: one global order of everything that the stages of a job do in a step, of which each
// stage's program is a part.
//
// Sends and receives meet, so both ends' orders must fit together: passes and messages of all
// stages stand in one order (by the schedule's time of a pass's end; a message right after the pass
// that made it). Whatever waits for something, waits for something earlier in it: nobody waits for
// ever. One stage is the same with no messages: F0 B0 F1 B1 … of all layers. Layer first, stages
// take one layer at a time through all micro-batches: GPipe's order where there are several. Every
// layer sees its micro-batches in ascending order.
#ifndef STRATA_PROGRAM_COMPOSE_PLAN_WALK_H_
#define STRATA_PROGRAM_COMPOSE_PLAN_WALK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/plan.h"
#include "program/ir/layer_graph.h"

namespace strata::program {

// Layers [first, end) of one chunk for one micro-batch of the rank; backwards from the last.
struct WalkPass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  int first = 0, end = 0;
};

enum class Direction : uint8_t { kForward, kBackward };  // activations; gradients

struct WalkEvent {
  // Ties of time in this order. A message to the sender itself is no message: it is at hand.
  enum class Kind : uint8_t { kPass, kMessage, kReduceTied };

  int64_t time = 0;
  Kind kind = Kind::kPass;
  int stage = 0;                              // that runs, or sends
  WalkPass pass;                              // kPass; kMessage: the pass that made it
  Direction direction = Direction::kForward;  // kMessage
  int receiver = 0;                           // kMessage: stage, and its chunk
  int receiver_chunk = 0;
};

struct Walk {
  ScheduleKind schedule = ScheduleKind::k1F1B;
  int stages = 1;
  int micro_batches = 1;  // of a rank
  bool split = false;     // backward in two parts
  bool evaluates = false;
  std::vector<std::pair<int, int>> layers;  // per virtual stage: [first, end)
  std::vector<int> in_flight;               // per stage, of training: InFlightBound
  std::vector<WalkEvent> events;

  int virtual_stages() const { return static_cast<int>(layers.size()); }
  int StageOf(int virtual_stage) const { return program::StageOf(schedule, stages, virtual_stage); }
  int VirtualStage(int stage, int chunk) const {
    return VirtualStageOf(schedule, stages, stage, chunk);
  }
  // The template of a layer's pass; -1: it has none.
  int TemplateOf(const LayerGraph& graph, int layer, PassKind kind) const;
};

// InvalidArgument: options or graphs that do not go together.
absl::StatusOr<Walk> PlanTraining(const LayerGraph& graph, const Plan& plan);
// Forward only, of `micro_batches` per rank.
absl::StatusOr<Walk> PlanEvaluation(const LayerGraph& graph, const Plan& plan, int micro_batches);

// Layers in `count` parts of equal cost, as far as that can be: the most expensive part costs as
// little as possible, then the parts differ as little as possible (in the sum of squares). Each has
// a layer between the first and the last, as long as these suffice. Per layer its part, ascending.
std::vector<int> BalancedVirtualStages(const std::vector<double>& costs, int count);

// Floating-point operations of a micro-batch's training passes, per layer.
std::vector<double> LayerCosts(const LayerGraph& graph);
// How long the layers' passes take beside each other, by the same measure.
PassDurations DurationsOf(const LayerGraph& graph);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_PLAN_WALK_H_
