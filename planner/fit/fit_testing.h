// For tests: requests as strata fit makes them of its flags.
#ifndef STRATA_PLANNER_FIT_FIT_TESTING_H_
#define STRATA_PLANNER_FIT_FIT_TESTING_H_

#include <cstdint>
#include <string>

#include "planner/fit/verdict.h"

namespace strata::planner {

enum class Method { kF32, kMixed, kLora, kQlora, kInference };

// One rank, passes of one sequence, AdamW with its state in f32.
inline FitRequest RequestOf(const FitModel& model, Method method, const FitDevice& device,
                            int64_t sequence) {
  FitRequest request;
  request.model = model;
  request.device = device;
  v1::TrainSpec& train = *request.job.mutable_train();
  train.set_sequence(sequence);
  train.set_micro_batch(1);
  train.set_global_batch(1);
  train.set_gradient_clip(1);
  train.set_precision(method == Method::kF32 ? v1::TrainSpec::PRECISION_F32
                                             : v1::TrainSpec::PRECISION_BF16);
  v1::OptimizerSpec& optimizer = *train.mutable_optimizer();
  optimizer.set_name(v1::OptimizerSpec::NAME_ADAMW);
  optimizer.set_master(v1::OptimizerSpec::MASTER_F32);
  optimizer.set_state(v1::OptimizerSpec::STATE_F32);
  v1::ParallelSpec& parallel = *request.job.mutable_parallel();
  parallel.set_data(1);
  parallel.set_virtual_shards(1);
  request.job.mutable_resources()->set_ranks(1);
  if (method == Method::kLora || method == Method::kQlora) {
    train.set_method(method == Method::kLora ? v1::TrainSpec::METHOD_LORA
                                             : v1::TrainSpec::METHOD_QLORA);
    train.mutable_lora()->set_rank(16);
    train.mutable_lora()->set_alpha(32);
    train.mutable_lora()->add_targets("all-linear");
    train.mutable_quantize()->set_type(v1::QuantizeSpec::TYPE_NF4);
    train.mutable_quantize()->set_double_(true);
  }
  request.inference = method == Method::kInference;
  request.weights = program::DType::kBF16;
  CompleteRequest(request);
  return request;
}
inline FitRequest RequestOf(const std::string& preset, Method method, const FitDevice& device,
                            int64_t sequence) {
  return RequestOf(*PresetModel(preset), method, device, sequence);
}

// A card of so many bytes.
inline FitDevice Card(int64_t bytes) { return {"card", bytes, false}; }

// Data-parallel ranks that share everything.
inline void ShareAmong(int64_t ranks, FitRequest& request) {
  v1::ParallelSpec& parallel = *request.job.mutable_parallel();
  parallel.set_data(ranks);
  parallel.set_shard(v1::ParallelSpec::SHARD_ZERO3);
  parallel.set_shard_group(ranks);
  parallel.set_virtual_shards(0);
  request.job.mutable_train()->set_global_batch(ranks);
  request.job.mutable_resources()->set_ranks(ranks);
}

inline void RecomputeAll(FitRequest& request) {
  request.job.mutable_parallel()->mutable_recompute()->set_mode(v1::RecomputeSpec::MODE_FULL);
}

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_FIT_TESTING_H_
