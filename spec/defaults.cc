#include "spec/defaults.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "model/family_defaults.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"
#include "program/compose/check_plan.h"
#include "spec/plan_shape.h"

namespace strata::spec {
namespace {

using strata::v1::JobSpec;
using strata::v1::ModelSpec;
using strata::v1::OptimizerSpec;
using strata::v1::ParallelSpec;
using strata::v1::RecomputeSpec;
using strata::v1::ScheduleSpec;
using strata::v1::TrainSpec;

// Sets a field of a message when it is absent.
#define STRATA_DEFAULT(message, field, value) \
  if (!(message).has_##field()) (message).set_##field(value)

constexpr int64_t kByteVocabulary = 256;
constexpr int64_t kMostLayers = 4096;  // of which defaults are said, one by one

v1::ModelSpec::Activation ActivationWord(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSilu:
      return ModelSpec::ACTIVATION_SILU;
    case model::Activation::kGeluTanh:
      return ModelSpec::ACTIVATION_GELU_TANH;
    case model::Activation::kGelu:
      return ModelSpec::ACTIVATION_GELU;
  }
  return ModelSpec::ACTIVATION_UNSPECIFIED;
}

// Jobs of Llamas were written before these could be said, and stay what they were.
void FamilyDefaults(const model::ModelSpec& usual, ModelSpec& message) {
  if (usual.family == model::Family::kLlama) return;
  STRATA_DEFAULT(message, norm_epsilon, usual.norm_epsilon);
  STRATA_DEFAULT(message, activation, ActivationWord(usual.activation));
  if (usual.attention_bias) STRATA_DEFAULT(message, attention_bias, true);
  if (usual.output_bias) STRATA_DEFAULT(message, output_bias, true);
  if (usual.feed_forward_bias) STRATA_DEFAULT(message, feed_forward_bias, true);
  if (usual.attention_softcap > 0) {
    STRATA_DEFAULT(message, attention_softcap, usual.attention_softcap);
  }
  if (usual.logit_softcap > 0) STRATA_DEFAULT(message, logit_softcap, usual.logit_softcap);
  if (usual.local_rope_theta > 0) {
    STRATA_DEFAULT(*message.mutable_rope(), local_theta, usual.local_rope_theta);
  }
  if (usual.sliding_window == 0) return;
  STRATA_DEFAULT(message, sliding_window, usual.sliding_window);
  if (!message.full_attention_layers().empty()) return;
  const int64_t layers = std::clamp<int64_t>(message.layers(), 0, kMostLayers);
  const std::vector<bool> full = model::UsualFullAttention(usual.family, layers);
  for (size_t layer = 0; layer < full.size(); ++layer) {
    if (full[layer]) message.add_full_attention_layers(static_cast<int64_t>(layer));
  }
}

// `bytes`: text is read as bytes, for want of a tokenizer.
void ModelDefaults(int64_t sequence, bool bytes, ModelSpec& message) {
  if (message.has_from()) return;  // its config.json says everything
  if (message.has_heads()) STRATA_DEFAULT(message, kv_heads, message.heads());
  if (message.has_hidden() && message.has_heads() && message.hidden() % message.heads() == 0) {
    STRATA_DEFAULT(message, head_size, message.hidden() / message.heads());
  }
  if (bytes) STRATA_DEFAULT(message, vocab, kByteVocabulary);
  STRATA_DEFAULT(message, context, sequence);
  const model::ModelSpec usual =
      model::DefaultsOf(model::FamilyOf(message.family()).value_or(model::Family::kLlama));
  STRATA_DEFAULT(message, tied_embeddings, usual.tied_embeddings);
  STRATA_DEFAULT(*message.mutable_rope(), theta, usual.rope_theta);
  STRATA_DEFAULT(message, initial_std, usual.initial_std);
  FamilyDefaults(usual, message);
}

// The largest divisor of `share` that is at most 4.
int64_t DefaultMicroBatch(int64_t share) {
  for (int64_t size = 4; size > 1; --size) {
    if (share % size == 0) return size;
  }
  return 1;
}

void AdapterDefaults(TrainSpec& train) {
  if (!model::TrainsAdapters(train)) return;
  strata::v1::LoraSpec& lora = *train.mutable_lora();
  STRATA_DEFAULT(lora, rank, 16);
  STRATA_DEFAULT(lora, alpha, 32);
  if (lora.targets().empty()) lora.add_targets("all-linear");
  if (train.method() != TrainSpec::METHOD_QLORA) return;
  strata::v1::QuantizeSpec& quantize = *train.mutable_quantize();
  STRATA_DEFAULT(quantize, type, strata::v1::QuantizeSpec::TYPE_NF4);
  if (quantize.type() != strata::v1::QuantizeSpec::TYPE_NF4) return;
  STRATA_DEFAULT(quantize, block, 64);
  STRATA_DEFAULT(quantize, double_, true);
}

// `longest`: sequence that the model knows; 0: any.
void TrainDefaults(const ParallelSpec& parallel, int64_t longest, TrainSpec& train) {
  if (!train.has_epochs()) STRATA_DEFAULT(train, steps, 600);
  STRATA_DEFAULT(train, sequence, longest > 0 ? std::min<int64_t>(256, longest) : 256);
  STRATA_DEFAULT(train, global_batch, 32);
  const int64_t parts = parallel.virtual_shards() > 0 ? parallel.virtual_shards() : parallel.data();
  STRATA_DEFAULT(train, micro_batch,
                 DefaultMicroBatch(train.global_batch() / std::max<int64_t>(1, parts)));
  STRATA_DEFAULT(train, seed, 1);
  STRATA_DEFAULT(train, precision, TrainSpec::PRECISION_F32);
  STRATA_DEFAULT(train, gradient_clip, 1.0);
  STRATA_DEFAULT(train, method, TrainSpec::METHOD_FULL);
  AdapterDefaults(train);
  OptimizerSpec& optimizer = *train.mutable_optimizer();
  STRATA_DEFAULT(optimizer, name, OptimizerSpec::NAME_ADAMW);
  STRATA_DEFAULT(optimizer, learning_rate, 1e-3);
  STRATA_DEFAULT(optimizer, weight_decay, 0.1);
  if (optimizer.name() == OptimizerSpec::NAME_SGD) {
    STRATA_DEFAULT(optimizer, momentum, 0.9);
  } else {
    STRATA_DEFAULT(optimizer, beta1, 0.9);
    STRATA_DEFAULT(optimizer, beta2, 0.95);
    STRATA_DEFAULT(optimizer, epsilon, 1e-8);
  }
  // master, state and gradient stay absent where they are f32, as in jobs of before they could be
  // said.
  ScheduleSpec& schedule = *train.mutable_schedule();
  STRATA_DEFAULT(schedule, name, ScheduleSpec::NAME_COSINE);
  STRATA_DEFAULT(schedule, warmup_steps, 50);
  STRATA_DEFAULT(schedule, final_fraction, 0.1);
}

// Layer by layer through all micro-batches is GPipe's order.
ParallelSpec::PipelineSchedule DefaultSchedule(const ParallelSpec& parallel) {
  const bool layers = parallel.micro_order() == ParallelSpec::MICRO_ORDER_LAYER_FIRST;
  return layers && parallel.pipeline() > 1 ? ParallelSpec::PIPELINE_SCHEDULE_GPIPE
                                           : ParallelSpec::PIPELINE_SCHEDULE_1F1B;
}

int64_t DefaultVirtualStages(ParallelSpec::PipelineSchedule schedule) {
  return schedule == ParallelSpec::PIPELINE_SCHEDULE_INTERLEAVED ||
                 schedule == ParallelSpec::PIPELINE_SCHEDULE_ZBV
             ? 2
             : 1;
}

// One leaf per rank, or off (0): sharded gradients are added up in one accumulator of a shard's
// size, where the partial sums of a tree would need several; so are those whose shard groups fit
// into no tree.
int64_t DefaultVirtualShards(const ParallelSpec& parallel) {
  using program::PlanShape;
  const bool sharded = parallel.shard() == ParallelSpec::SHARD_ZERO2 ||
                       parallel.shard() == ParallelSpec::SHARD_ZERO3;
  const int64_t data = std::max<int64_t>(1, parallel.data());
  const bool tree =
      program::SumsAreSubtrees(ShardOf(parallel.shard()), data, parallel.shard_group(), data);
  return sharded || !tree ? 0 : data;
}

void ParallelDefaults(ParallelSpec& parallel) {
  if (parallel.automatic()) return;
  STRATA_DEFAULT(parallel, data, 1);
  STRATA_DEFAULT(parallel, tensor, 1);
  STRATA_DEFAULT(parallel, context, 1);
  STRATA_DEFAULT(parallel, pipeline, 1);
  STRATA_DEFAULT(parallel, context_method, ParallelSpec::CONTEXT_METHOD_RING);
  STRATA_DEFAULT(parallel, micro_order, ParallelSpec::MICRO_ORDER_DEPTH_FIRST);
  STRATA_DEFAULT(parallel, pipeline_schedule, DefaultSchedule(parallel));
  STRATA_DEFAULT(parallel, virtual_stages, DefaultVirtualStages(parallel.pipeline_schedule()));
  STRATA_DEFAULT(parallel, expert, 1);
  STRATA_DEFAULT(parallel, shard, ParallelSpec::SHARD_NONE);
  if (parallel.shard() != ParallelSpec::SHARD_NONE) {
    STRATA_DEFAULT(parallel, shard_group, parallel.data());
  }
  if (!parallel.has_recompute()) parallel.mutable_recompute()->set_mode(RecomputeSpec::MODE_NONE);
  STRATA_DEFAULT(parallel, update_policy, ParallelSpec::UPDATE_POLICY_DEFERRED);
}

// Classes that have no place yet.
void EverythingOnDevice(strata::v1::PlaceSpec& place) {
  for (strata::v1::TierShares* shares : {place.mutable_parameters(), place.mutable_gradients(),
                                         place.mutable_optimizer(), place.mutable_activations()}) {
    const bool given =
        shares->has_device() || shares->has_host() || shares->has_ssd() || shares->has_unified();
    if (!given) shares->set_device(1);
  }
}

}  // namespace

void MemoryDefaults(strata::v1::MemorySpec& memory) {
  if (memory.automatic()) return;
  strata::v1::PlaceSpec& place = *memory.mutable_place();
  if (!place.automatic()) EverythingOnDevice(place);
  strata::v1::StreamSpec& stream = *memory.mutable_stream();
  if (!stream.has_resident() && !stream.has_moved()) stream.set_automatic(true);
  if (!stream.automatic()) STRATA_DEFAULT(stream, moved, 1);
}

void ClosePlaces(JobSpec& job) {
  if (job.memory().automatic()) job.clear_memory();
  if (!job.memory().place().automatic()) return;
  job.mutable_memory()->mutable_place()->clear_automatic();
  MemoryDefaults(*job.mutable_memory());
}

int64_t RanksOf(const ParallelSpec& parallel) {
  // Degrees are at most 2^20 (schema.cc): the product saturates long before it could overflow.
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t ranks = 1;
  for (const int64_t degree :
       {parallel.data(), parallel.tensor(), parallel.context(), parallel.pipeline()}) {
    ranks = std::min(kMost, ranks * std::max<int64_t>(1, degree));
  }
  return ranks;
}

std::string NameFromFile(absl::string_view file) {
  const size_t slash = file.rfind('/');
  if (slash != absl::string_view::npos) file.remove_prefix(slash + 1);
  const size_t dot = file.rfind('.');
  if (dot != absl::string_view::npos && dot > 0) file = file.substr(0, dot);
  std::string name;
  for (const char c : file) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (!plain && name.empty()) continue;
    name.push_back(plain || c == '.' || c == '_' || c == '-' ? c : '-');
  }
  return name.empty() ? "job" : name.substr(0, 63);
}

void ApplyDefaults(absl::string_view default_name, JobSpec& job) {
  STRATA_DEFAULT(job, name, std::string(default_name));
  STRATA_DEFAULT(job, project, "default");
  ParallelDefaults(*job.mutable_parallel());
  if (job.has_memory()) MemoryDefaults(*job.mutable_memory());
  TrainDefaults(job.parallel(), job.model().has_from() ? job.model().context() : 0,
                *job.mutable_train());
  if (!job.parallel().automatic()) {
    STRATA_DEFAULT(*job.mutable_parallel(), virtual_shards, DefaultVirtualShards(job.parallel()));
  }
  ModelDefaults(job.train().sequence(), !job.data().has_tokenizer(), *job.mutable_model());
  for (auto& file : *job.mutable_data()->mutable_train()) {
    if (!job.train().has_epochs()) STRATA_DEFAULT(file, weight, 1);
  }
  STRATA_DEFAULT(*job.mutable_data(), shuffle, true);
  // As in jobs that were written before it could be said: what `false` says is one thing.
  if (!job.data().packing()) job.mutable_data()->clear_packing();
  auto& resources = *job.mutable_resources();
  STRATA_DEFAULT(resources, device, "cpu");
  STRATA_DEFAULT(resources, ranks, RanksOf(job.parallel()));
  STRATA_DEFAULT(resources, priority, 0);
  STRATA_DEFAULT(resources, queue, "default");
  STRATA_DEFAULT(resources, spares, 0);
  STRATA_DEFAULT(resources, preemptible, false);
  for (auto& constraint : *resources.mutable_topology()) {
    STRATA_DEFAULT(constraint, preferred, false);
  }
  if (job.data().has_validation()) {
    STRATA_DEFAULT(*job.mutable_evaluate(), every_steps, 100);
    STRATA_DEFAULT(*job.mutable_evaluate(), sequences, 64);
  }
  STRATA_DEFAULT(*job.mutable_checkpoint(), every_steps, 100);
  STRATA_DEFAULT(*job.mutable_checkpoint(), keep, 3);
  STRATA_DEFAULT(*job.mutable_restart(), max_without_progress, 3);
}

#undef STRATA_DEFAULT

}  // namespace strata::spec
