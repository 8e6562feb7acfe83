#include "planner/job/job_plan.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "model/families/families.h"
#include "model/lora_proto.h"
#include "planner/job/number_plan.h"

namespace strata::planner {
namespace {

program::ShardLevel LevelOf(v1::ParallelSpec::Shard shard) {
  switch (shard) {
    case v1::ParallelSpec::SHARD_ZERO1:
      return program::ShardLevel::kOptimizer;
    case v1::ParallelSpec::SHARD_ZERO2:
      return program::ShardLevel::kGradients;
    case v1::ParallelSpec::SHARD_ZERO3:
      return program::ShardLevel::kParameters;
    default:
      return program::ShardLevel::kNone;
  }
}

program::ScheduleKind ScheduleOf(v1::ParallelSpec::PipelineSchedule schedule) {
  switch (schedule) {
    case v1::ParallelSpec::PIPELINE_SCHEDULE_GPIPE:
      return program::ScheduleKind::kGpipe;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_INTERLEAVED:
      return program::ScheduleKind::kInterleaved;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_ZERO_BUBBLE:
      return program::ScheduleKind::kZeroBubble;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_ZBV:
      return program::ScheduleKind::kZbv;
    default:
      return program::ScheduleKind::k1F1B;
  }
}

program::ContextMethod ContextMethodOf(v1::ParallelSpec::ContextMethod method) {
  switch (method) {
    case v1::ParallelSpec::CONTEXT_METHOD_ALL_GATHER:
      return program::ContextMethod::kAllGather;
    case v1::ParallelSpec::CONTEXT_METHOD_ALL_TO_ALL:
      return program::ContextMethod::kAllToAll;
    default:
      return program::ContextMethod::kRing;
  }
}

// Of each layer of the graph, the embedding and the head included; empty: not asked for.
std::vector<int> StagesOf(const v1::ParallelSpec& parallel) {
  std::vector<int> stages;
  for (int stage = 0; stage < parallel.stages_size(); ++stage) {
    stages.insert(stages.end(), static_cast<size_t>(parallel.stages(stage)), stage);
  }
  if (stages.empty()) return stages;
  stages.insert(stages.begin(), stages.front());
  stages.push_back(stages.back());
  return stages;
}

// Into which a tensor group's collectives are cut: up to four, as far as the tokens of a pass
// allow.
int64_t ChunksOf(const v1::TrainSpec& train, int64_t context, int64_t tensor) {
  const int64_t tokens = train.micro_batch() * train.sequence() / context;
  int64_t chunks = 4;
  while (chunks > 1 && tokens % (tensor * chunks) != 0) --chunks;
  return chunks;
}

program::Place PlaceOf(const v1::TierShares& shares) {
  return {.host = shares.host(), .ssd = shares.ssd(), .unified = shares.unified()};
}

program::UpdatePolicy PolicyOf(v1::ParallelSpec::UpdatePolicy policy) {
  switch (policy) {
    case v1::ParallelSpec::UPDATE_POLICY_SPOOLED:
      return program::UpdatePolicy::kSpooled;
    case v1::ParallelSpec::UPDATE_POLICY_SPECULATIVE:
      return program::UpdatePolicy::kSpeculative;
    default:
      return program::UpdatePolicy::kDeferred;
  }
}

// Tiers, homes, streaming and policy.
void SetMemory(const v1::JobSpec& job, program::Plan& plan) {
  plan.update = PolicyOf(job.parallel().update_policy());
  if (job.parallel().spool() == v1::ParallelSpec::SPOOL_BF16) plan.spool = program::DType::kBF16;
  if (OnAccelerator(job) || job.has_memory()) plan.tier = program::Tier::kDevice;
  if (!job.has_memory()) return;
  const v1::MemorySpec& memory = job.memory();
  plan.places = {.parameters = PlaceOf(memory.place().parameters()),
                 .gradients = PlaceOf(memory.place().gradients()),
                 .optimizer = PlaceOf(memory.place().optimizer()),
                 .activations = PlaceOf(memory.place().activations())};
  plan.streaming = {.resident = static_cast<int>(memory.stream().resident()),
                    .moved = static_cast<int>(std::max<int64_t>(1, memory.stream().moved()))};
  plan.device_limit = memory.device();
}

model::RecomputePlan RecomputeOf(const v1::RecomputeSpec& spec) {
  using Mode = model::RecomputePlan::Mode;
  model::RecomputePlan plan;
  if (spec.mode() == v1::RecomputeSpec::MODE_SELECTIVE) plan.mode = Mode::kSelective;
  if (spec.mode() == v1::RecomputeSpec::MODE_FULL) plan.mode = Mode::kFull;
  if (spec.has_mode()) return plan;
  plan.save.assign(spec.save().begin(), spec.save().end());
  if (plan.save.empty()) plan.mode = Mode::kFull;  // a list that names nothing
  if (spec.has_layers()) {
    plan.first_layer = spec.layers().first();
    plan.last_layer = spec.layers().last();
  }
  return plan;
}

int64_t ParametersOf(const program::LayerGraph& graph) {
  int64_t count = 0;
  for (const program::ParameterSet& set : graph.sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      count += program::IsRowScales(tensor.name) ? 0 : tensor.whole_elements();
    }
  }
  return count;
}

model::EmitOptions EmitOptionsOf(const v1::JobSpec& job, const program::Plan& plan) {
  const v1::TrainSpec& train = job.train();
  model::EmitOptions emit;
  emit.set_alignment = NumberFormatsOf(train).set_alignment();
  emit.micro_batch = train.micro_batch();
  emit.sequence = train.sequence();
  emit.prefill_chunk = 0;
  emit.tensor_degree = plan.groups.tensor;
  emit.tensor_chunks = ChunksOf(train, plan.groups.context, plan.groups.tensor);
  emit.context_ranks = plan.groups.context;
  emit.context_method = ContextMethodOf(job.parallel().context_method());
  emit.documents = job.data().packing();
  emit.split_backward = plan.groups.pipeline > 1 && program::Splits(plan.schedule);
  emit.lora = model::LoraOf(train);
  if (job.parallel().has_recompute()) emit.recompute = RecomputeOf(job.parallel().recompute());
  return emit;
}

}  // namespace

bool OnAccelerator(const v1::JobSpec& job) {
  const std::string& device = job.resources().device();
  return !device.empty() && device != "cpu";
}

program::Plan PlanOf(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  program::Plan plan;
  plan.shard = LevelOf(parallel.shard());
  plan.groups.data = static_cast<int>(parallel.data());
  if (plan.shard != program::ShardLevel::kNone) {
    plan.groups.shard =
        static_cast<int>(parallel.shard_group() > 0 ? parallel.shard_group() : parallel.data());
  }
  plan.groups.tensor = static_cast<int>(std::max<int64_t>(1, parallel.tensor()));
  plan.groups.context = static_cast<int>(std::max<int64_t>(1, parallel.context()));
  plan.groups.pipeline = static_cast<int>(std::max<int64_t>(1, parallel.pipeline()));
  plan.schedule = ScheduleOf(parallel.pipeline_schedule());
  plan.virtual_stages = static_cast<int>(std::max<int64_t>(1, parallel.virtual_stages()));
  plan.stage_of_layer = StagesOf(parallel);
  plan.virtual_shards = parallel.virtual_shards();
  plan.global_batch = job.train().global_batch();
  if (parallel.micro_order() == v1::ParallelSpec::MICRO_ORDER_LAYER_FIRST) {
    plan.micro_order = program::MicroOrder::kLayerFirst;
  }
  plan.gradient_clip = job.train().gradient_clip();
  SetTypes(job.train(), plan);
  SetMemory(job, plan);
  return plan;
}

absl::StatusOr<DecidedJob> DecideJob(const v1::JobSpec& job, const model::ModelSpec& model,
                                     const JobSurroundings& around) {
  program::Plan plan = PlanOf(job);
  plan.scratch = around.scratch;
  plan.evaluate_batch = around.evaluate_sequences;
  model::EmitOptions emit = EmitOptionsOf(job, plan);
  emit.threads = around.threads;
  if (OnAccelerator(job)) emit.backend = ops::BackendKind::kCuda;
  ASSIGN_OR_RETURN(emit.type, ComputeTypeOf(job.train().precision()));
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(model, emit));
  plan.durations = program::DurationsOf(graph);
  DecidedJob decided;
  decided.rope_table_rows = model::RopeTableRows(model, emit);
  decided.parameters = ParametersOf(graph);
  ASSIGN_OR_RETURN(decided.decision, program::Decide(std::move(graph), plan));
  decided.update = UpdateOf(job.train(), plan.update_gradient());
  if (around.costs != nullptr) {
    ASSIGN_OR_RETURN(decided.stream,
                     ChooseStreaming(decided.decision, decided.update, *around.costs));
  }
  if (decided.stream.has_value()) {
    decided.decision.plan.streaming = decided.stream->chosen.streaming;
  }
  return decided;
}

program::DecodeOptions StreamingOf(const v1::MemorySpec& memory) {
  return {.parameters = PlaceOf(memory.place().parameters()),
          .streaming = {.resident = static_cast<int>(memory.stream().resident()),
                        .moved = static_cast<int>(std::max<int64_t>(1, memory.stream().moved()))},
          .device_limit = memory.device()};
}

}  // namespace strata::planner
