#include "spec/plan_shape.h"

#include "absl/strings/str_cat.h"

namespace strata::spec {
namespace {

using program::PlanShape;
using strata::v1::ParallelSpec;

PlanShape::Schedule ScheduleOf(ParallelSpec::PipelineSchedule schedule) {
  switch (schedule) {
    case ParallelSpec::PIPELINE_SCHEDULE_GPIPE:
      return PlanShape::Schedule::kGpipe;
    case ParallelSpec::PIPELINE_SCHEDULE_INTERLEAVED:
      return PlanShape::Schedule::kInterleaved;
    case ParallelSpec::PIPELINE_SCHEDULE_ZERO_BUBBLE:
      return PlanShape::Schedule::kZeroBubble;
    case ParallelSpec::PIPELINE_SCHEDULE_ZBV:
      return PlanShape::Schedule::kZbv;
    default:
      return PlanShape::Schedule::k1F1B;
  }
}

PlanShape::ContextMethod ContextMethodOf(ParallelSpec::ContextMethod method) {
  switch (method) {
    case ParallelSpec::CONTEXT_METHOD_ALL_GATHER:
      return PlanShape::ContextMethod::kAllGather;
    case ParallelSpec::CONTEXT_METHOD_ALL_TO_ALL:
      return PlanShape::ContextMethod::kAllToAll;
    default:
      return PlanShape::ContextMethod::kRing;
  }
}

class Filler {
 public:
  Filler(const strata::v1::JobSpec& job, const Problems& problems)
      : job_(job), problems_(problems) {}

  void Degrees(PlanShape& plan) {
    const ParallelSpec& parallel = job_.parallel();
    plan.data = Known("parallel.data", parallel.data());
    plan.tensor = Known("parallel.tensor", parallel.tensor());
    plan.context = Known("parallel.context", parallel.context());
    plan.pipeline = Known("parallel.pipeline", parallel.pipeline());
    plan.expert = Known("parallel.expert", parallel.expert());
    plan.virtual_stages = Known("parallel.virtual_stages", parallel.virtual_stages());
    plan.shard = ShardOf(parallel.shard());
    plan.shard_group = Known("parallel.shard_group", parallel.shard_group());
    plan.virtual_shards = Known("parallel.virtual_shards", parallel.virtual_shards());
    plan.schedule = ScheduleOf(parallel.pipeline_schedule());
    plan.layer_first = parallel.micro_order() == ParallelSpec::MICRO_ORDER_LAYER_FIRST;
    plan.context_method = ContextMethodOf(parallel.context_method());
    // What a schedule asks for is not known where its name is wrong; nor are sums without a level.
    if (problems_.Concerns("parallel.pipeline_schedule")) plan.virtual_stages = 0;
    if (problems_.Concerns("parallel.shard")) plan.shard_group = plan.virtual_shards = 0;
  }

  void Lists(PlanShape& plan) {
    const ParallelSpec& parallel = job_.parallel();
    bool sound = !problems_.Concerns("parallel.stages");
    for (int i = 0; i < parallel.stages_size(); ++i) {
      sound &= !problems_.Concerns(absl::StrCat("parallel.stages[", i, "]"));
    }
    if (sound) plan.stages.assign(parallel.stages().begin(), parallel.stages().end());
    const auto& recompute = parallel.recompute();
    if (recompute.has_layers() && !problems_.Concerns("parallel.recompute.layers")) {
      plan.recompute_layers = {recompute.layers().first(), recompute.layers().last()};
    }
    plan.recompute_saves.assign(recompute.save().begin(), recompute.save().end());
  }

  void Sizes(PlanShape& plan) {
    const auto& train = job_.train();
    plan.global_batch = Known("train.global_batch", train.global_batch());
    plan.micro_batch = Known("train.micro_batch", train.micro_batch());
    plan.sequence = Known("train.sequence", train.sequence());
    const auto& model = job_.model();
    if (model.has_from() && !model.has_layers()) return;  // nobody has read its config.json
    plan.layers = Known("model.layers", model.layers());
    plan.heads = Known("model.heads", model.heads());
    plan.kv_heads = Known("model.kv_heads", model.kv_heads());
    plan.ffn = Known("model.ffn", model.ffn());
  }

 private:
  int64_t Known(const char* path, int64_t value) const {
    return problems_.Concerns(path) ? 0 : value;
  }

  const strata::v1::JobSpec& job_;
  const Problems& problems_;
};

}  // namespace

PlanShape::Shard ShardOf(ParallelSpec::Shard shard) {
  switch (shard) {
    case ParallelSpec::SHARD_ZERO1:
      return PlanShape::Shard::kZero1;
    case ParallelSpec::SHARD_ZERO2:
      return PlanShape::Shard::kZero2;
    case ParallelSpec::SHARD_ZERO3:
      return PlanShape::Shard::kZero3;
    default:
      return PlanShape::Shard::kNone;
  }
}

PlanShape PlanShapeOf(const strata::v1::JobSpec& job, const Problems& problems) {
  PlanShape plan;
  Filler filler(job, problems);
  filler.Degrees(plan);
  filler.Lists(plan);
  filler.Sizes(plan);
  return plan;
}

}  // namespace strata::spec
