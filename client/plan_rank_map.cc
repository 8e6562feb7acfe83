#include "client/plan_rank_map.h"

#include <optional>

#include "planner/traffic.h"
#include "scheduler/placement/placement.h"

namespace strata::client {
namespace {

using v1::ParallelSpec;

// What placement counts the bytes of.
v1::JobSpec JobOf(const planner::TrainingShape& shape, const planner::LayoutChoice& layout) {
  v1::JobSpec job;
  ParallelSpec& parallel = *job.mutable_parallel();
  parallel.set_tensor(layout.tensor);
  parallel.set_context(layout.context);
  parallel.set_pipeline(layout.pipeline);
  parallel.set_virtual_stages(layout.chunks);
  parallel.set_data(layout.data);
  if (layout.replicas > 1) parallel.set_shard_group(layout.data / layout.replicas);
  static constexpr ParallelSpec::Shard kLevels[] = {
      ParallelSpec::SHARD_NONE, ParallelSpec::SHARD_ZERO1, ParallelSpec::SHARD_ZERO2,
      ParallelSpec::SHARD_ZERO3};
  parallel.set_shard(kLevels[static_cast<int>(layout.sharding)]);
  if (layout.recompute == planner::Recompute::kFull) {
    parallel.mutable_recompute()->set_mode(v1::RecomputeSpec::MODE_FULL);
  }
  v1::TrainSpec& train = *job.mutable_train();
  train.set_sequence(shape.sequence_length);
  train.set_micro_batch(layout.micro_batch);
  train.set_global_batch(layout.global_batch);
  train.set_precision(layout.precision == planner::Precision::kFp32
                          ? v1::TrainSpec::PRECISION_F32
                          : v1::TrainSpec::PRECISION_BF16);
  return job;
}

}  // namespace

std::vector<scheduler::OrderTime> RankMapTimes(const LoadedPlan& plan, const PlanQuestion& question,
                                               const planner::RankedPlan& ranked) {
  if (question.cluster == nullptr) return {};
  const planner::SearchRequest& request = question.request;
  const v1::JobSpec job = JobOf(request.shape, ranked.layout);
  const auto degrees = planner::DegreesOf(job.parallel());
  if (!degrees.ok()) return {};
  scheduler::Shape shape;
  shape.degrees = *degrees;
  shape.traffic = planner::TrafficOf(plan.sizes, job, *degrees);
  shape.device = question.kind;
  const auto placement =
      scheduler::Place(*question.cluster, scheduler::Occupancy::Now(*question.cluster), shape);
  if (!placement.has_value()) return {};
  return scheduler::StepTimes({request.machine, request.shape, ranked.layout}, *question.cluster,
                              shape, *placement);
}

}  // namespace strata::client
