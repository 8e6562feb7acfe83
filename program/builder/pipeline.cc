#include "program/builder/pipeline.h"

#include <memory>
#include <utility>

#include "common/status_macros.h"
#include "program/builder/pipeline_plan.h"
#include "program/builder/pipeline_stage.h"

namespace strata::program {

absl::StatusOr<std::vector<ProgramSet>> BuildPipeline(LayerGraph graph, const UpdateEmitter& update,
                                                      const PipelineOptions& options) {
  ASSIGN_OR_RETURN(const PipelinePlan plan, PlanPipeline(std::move(graph), options));
  std::vector<std::unique_ptr<PipelineStage>> stages;
  for (int r = 0; r < plan.stages(); ++r) {
    stages.push_back(std::make_unique<PipelineStage>(plan, r, update));
  }
  for (const PipelineEvent& event : plan.order) {
    switch (event.kind) {
      case PipelineEvent::Kind::kPass:
        stages[event.stage]->RunPass(event.pass);
        break;
      case PipelineEvent::Kind::kMessage:
        stages[event.stage]->Send(event);
        stages[event.receiver]->Receive(event);
        break;
      case PipelineEvent::Kind::kReduceTied:
        stages.front()->ReduceTied();
        stages.back()->ReduceTied();
        break;
    }
  }
  std::vector<ProgramSet> sets;
  for (const auto& stage : stages) {
    ASSIGN_OR_RETURN(ProgramSet set, stage->Finish());
    sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace strata::program
