#include "worker/trainer/inference_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "model/families/families.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"
#include "planner/job/job_plan.h"
#include "planner/job/number_plan.h"
#include "worker/trainer/plan_digest.h"

namespace strata::worker {

absl::StatusOr<v1::JobSpec> JobOf(const checkpoint::Manifest& manifest) {
  v1::JobSpec job;
  const auto status = google::protobuf::util::JsonStringToMessage(manifest.info.job_spec, &job);
  if (!status.ok()) {
    return absl::DataLossError(
        absl::StrCat(checkpoint::kManifestName, ": its job cannot be read: ", status.ToString()));
  }
  return job;
}

std::string JobText(const v1::JobSpec& job) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for messages of other kinds (Any of an unknown type).
  static_cast<void>(google::protobuf::util::MessageToJsonString(job, &text, options));
  return text;
}

std::vector<const program::ProgramSet*> InferenceProgram::sets() const {
  std::vector<const program::ProgramSet*> sets;
  for (const program::DecodePrograms& stage : stages) sets.push_back(&stage.set);
  return sets;
}

namespace {

// Tokens that are there before any is made: a window, or a prompt.
int64_t GivenTokens(const v1::TrainerTask& task, const v1::JobSpec& job) {
  const v1::StandaloneRequest& request = task.request();
  if (task.kind() == v1::TrainerTask::KIND_EVALUATE) {
    return request.sequence() > 0 ? request.sequence() : job.train().sequence();
  }
  const auto bytes = static_cast<int64_t>(request.prompt().size());
  return std::max<int64_t>({1, bytes, request.prompt_tokens_size()});
}

}  // namespace

absl::StatusOr<InferenceProgram> CompileInference(const v1::JobSpec& job, int64_t largest_chunk,
                                                  const v1::TrainerTask& task,
                                                  const std::string& build) {
  InferenceProgram result;
  ASSIGN_OR_RETURN(result.model, model::FromProto(job.model()));
  if (task.ranks() > result.model.layers) {
    return absl::InvalidArgumentError(absl::StrCat("--ranks: ", task.ranks(),
                                                   " ranks cannot share ", result.model.layers,
                                                   " layers — at most ", result.model.layers));
  }
  // Caches and tables have a row per position of the context, of which a published model has more
  // than anybody needs at once. Learned positions are weights, which stay as they are.
  result.given_tokens = GivenTokens(task, job);
  if (result.model.family != model::Family::kGpt2) {
    result.model.context =
        std::min(result.model.context, result.given_tokens + task.request().tokens());
  }
  result.trained_sequence = job.train().sequence();
  result.chunk = std::clamp<int64_t>(largest_chunk, 1, result.model.context);
  model::EmitOptions emit;
  emit.prefill_chunk = result.chunk;
  emit.threads = task.threads();
  const bool accelerated = planner::OnAccelerator(task.request().job());
  if (accelerated) emit.backend = ops::BackendKind::kCuda;
  emit.lora = model::LoraOf(job.train());
  ASSIGN_OR_RETURN(emit.type, planner::ComputeTypeOf(task.request().precision()));
  result.type = emit.type;
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(result.model, emit));
  result.constant_rows = model::RopeTableRows(result.model, emit);
  result.constants = graph.constants;
  result.digest = PlanDigest(graph, build);
  result.parameters = graph.parameters();
  program::DecodeOptions options = planner::StreamingOf(task.request().memory());
  options.stages = task.ranks();
  if (accelerated || task.request().has_memory()) options.tier = program::Tier::kDevice;
  ASSIGN_OR_RETURN(result.stages, program::BuildDecode(graph, options));
  return result;
}

}  // namespace strata::worker
