// What BuildPipeline decides before it builds: which stage holds which layers and sets, what of
// their gradients must be reduced, and the one order of passes and exchanges of all stages.
// Internal to the pipeline builder.
#ifndef STRATA_PROGRAM_BUILDER_PIPELINE_PLAN_H_
#define STRATA_PROGRAM_BUILDER_PIPELINE_PLAN_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "program/builder/pipeline.h"

namespace strata::program {

// A parameter set on one stage.
struct StageSet {
  int index = -1;  // in LayerGraph::sets
  // What each rank's gradient is a partial sum over when its last producer has ended.
  Partial partial = 0;
  bool tensor_sharded = false;  // each rank of the tensor group has a part of it
  int producers = 0;            // calls per micro-batch that add to the gradient

  bool tied() const { return (partial & PartialOver(Group::kEmbedding)) != 0; }
};

enum class Direction : uint8_t { kForward, kBackward };  // activations; gradients

// One entry of the order of everything.
struct PipelineEvent {
  enum class Kind : uint8_t { kPass, kMessage, kReduceTied };  // ties of time in this order

  int64_t time = 0;
  Kind kind = Kind::kPass;
  int stage = 0;                              // that runs, or sends
  ScheduledPass pass;                         // kPass; kMessage: the pass that made it
  Direction direction = Direction::kForward;  // kMessage
  int receiver = 0;                           // kMessage: stage, and its chunk
  int receiver_chunk = 0;
};

struct PipelinePlan {
  LayerGraph graph;
  PipelineOptions options;
  std::vector<std::pair<int, int>> layers;  // per virtual stage: [first, end)
  std::vector<std::vector<StageSet>> sets;  // per stage, in order of first use
  std::vector<PipelineEvent> order;
  int64_t columns = 1;  // of the leaves: the loss, then at most as many sets as a stage counts

  int stages() const { return options.schedule.stages; }
  int virtual_stages() const { return stages() * options.schedule.virtual_stages; }
  int last_virtual_stage() const { return virtual_stages() - 1; }
  // The template of a layer's pass; -1: it has none.
  int TemplateOf(int layer, PassKind kind) const;
  // Whether the set's gradient counts in this stage's part of the norm.
  bool Counts(int stage, const StageSet& set) const {
    return graph.sets[set.index].counted_in_norm && (!set.tied() || stage == 0);
  }
};

absl::StatusOr<PipelinePlan> PlanPipeline(LayerGraph graph, const PipelineOptions& options);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_BUILDER_PIPELINE_PLAN_H_
