#include "checkpoint/huggingface/model_tensors.h"

#include <utility>

#include "common/status_macros.h"
#include "model/families/families.h"

namespace strata::checkpoint {

absl::StatusOr<std::vector<LogicalTensorShape>> TensorsOfModel(const model::ModelSpec& spec,
                                                               model::LoraOptions lora) {
  model::EmitOptions options;  // no batch, no layout: the tensors do not depend on them
  options.prefill_chunk = 0;
  options.lora = std::move(lora);
  options.lora.quantised.reset();
  ASSIGN_OR_RETURN(const program::LayerGraph graph, model::EmitFamily(spec, options));
  return LogicalTensorsOf(graph.sets);
}

}  // namespace strata::checkpoint
