#include "tests/parity/random_job.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rng.h"
#include "model/saved_values.h"
#include "worker/engine/communication_binding.h"

namespace strata::testing {
namespace {

using program::PlanShape;
using program::ScheduleKind;
using program::ShardLevel;

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  // Uniform in [least, most].
  int64_t Roll(int64_t least, int64_t most) {
    return least + common::Philox(seed_, next_++, 1)[0] % (most - least + 1);
  }
  bool OneIn(int64_t n) { return Roll(1, n) == 1; }
  template <typename T, size_t N>
  T Pick(const std::array<T, N>& of) {
    return of[Roll(0, N - 1)];
  }
  int64_t Of(const std::vector<int64_t>& values) {
    return values[Roll(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

void DrawModel(Dice& dice, const PlanShape& shape, model::ModelSpec& m) {
  const int64_t tensor = shape.tensor;
  const bool shares = shape.context_method == program::ContextMethod::kAllToAll;
  const int64_t ranks = shares ? tensor * shape.context : tensor;  // that share heads
  m.layers = dice.Roll(1, 5);
  m.heads = ranks * dice.Roll(1, 3);
  std::vector<int64_t> fitting;
  for (int64_t kv = 1; kv <= m.heads; ++kv) {
    if (m.heads % kv == 0 && (kv % ranks == 0 || ranks % kv == 0)) fitting.push_back(kv);
  }
  m.kv_heads = dice.Of(fitting);
  m.head_size = 2 * dice.Roll(1, 4);
  m.hidden = dice.Roll(3, 21);
  m.ffn = tensor * dice.Roll(1, 13);
  m.vocab = dice.Roll(3, 12) * (dice.Roll(0, 1) == 0 ? 1 : tensor);
  m.context = 48;
  m.tied_embeddings = dice.OneIn(2);
  m.initial_std = 0.1;
}

// Of a pipeline: its schedule, and which layers its stages have.
void DrawPipeline(Dice& dice, PlanShape& shape, model::ModelSpec& model) {
  using Schedule = PlanShape::Schedule;
  shape.layer_first = dice.OneIn(shape.pipeline == 1 ? 2 : 4);
  if (shape.pipeline == 1) return;
  shape.schedule = static_cast<Schedule>(dice.Roll(0, 4));
  if (shape.layer_first && !dice.OneIn(4)) shape.schedule = Schedule::kGpipe;
  if (shape.schedule == Schedule::kZbv) shape.virtual_stages = 2;
  if (shape.schedule == Schedule::kInterleaved) shape.virtual_stages = dice.Roll(2, 3);
  if (shape.schedule == Schedule::kZeroBubble) shape.virtual_stages = dice.Roll(1, 2);
  const int64_t stages = shape.pipeline * shape.virtual_stages;
  if (model.layers < stages && !dice.OneIn(4)) model.layers = stages + dice.Roll(0, 2);
  if (model.layers < stages || dice.OneIn(2)) return;
  shape.stages.assign(stages, 1);
  for (int64_t left = model.layers - stages; left > 0; --left) {
    ++shape.stages[dice.Roll(0, stages - 1)];
  }
}

void DrawRecompute(Dice& dice, const model::ModelSpec& model, PlanShape& shape,
                   model::RecomputePlan& recompute) {
  recompute.mode = dice.Pick(
      std::array{model::RecomputePlan::Mode::kNone, model::RecomputePlan::Mode::kNone,
                 model::RecomputePlan::Mode::kSelective, model::RecomputePlan::Mode::kFull});
  if (recompute.mode == model::RecomputePlan::Mode::kNone && dice.OneIn(2)) {
    for (const std::string& name : model::NamesOfSavableValues(model::Family::kLlama)) {
      if (dice.OneIn(2)) shape.recompute_saves.push_back(name);
    }
  }
  if (dice.OneIn(2)) return;
  const int64_t first = dice.Roll(0, model.layers - 1);
  shape.recompute_layers = {first, dice.Roll(first, model.layers - 1)};
}

// What rules are about, mostly kept.
void DrawData(Dice& dice, PlanShape& shape) {
  shape.shard = static_cast<PlanShape::Shard>(dice.Roll(0, 3));
  if (shape.shard != PlanShape::Shard::kNone && shape.data > 1) {
    std::vector<int64_t> groups;
    for (int64_t group = 2; group <= shape.data; ++group) {
      if (shape.data % group == 0) groups.push_back(group);
    }
    shape.shard_group = dice.Of(groups);
  }
  shape.micro_batch = dice.Roll(1, 2);
  shape.virtual_shards = dice.OneIn(4) ? 0 : shape.data * (int64_t{1} << dice.Roll(0, 2));
  const int64_t leaves = std::max(shape.virtual_shards, shape.data);
  shape.global_batch = leaves * dice.Roll(1, 3) * shape.micro_batch;
}

program::Place DrawPlace(Dice& dice) {
  constexpr double kParts[] = {0, 0.3, 0.5, 1};
  const double host = kParts[dice.Roll(0, 3)];
  const double ssd = host == 1 ? 0 : dice.Pick(std::array{0.0, 0.4, 1 - host});
  return {.host = host, .ssd = std::min(ssd, 1 - host)};
}

// Of half of the plans some bytes live beyond the device.
void DrawPlaces(Dice& dice, program::Plan& plan) {
  if (dice.OneIn(2)) return;
  plan.tier = program::Tier::kDevice;
  program::Places& places = plan.places;
  for (program::Place* place :
       {&places.parameters, &places.gradients, &places.optimizer, &places.activations}) {
    if (dice.OneIn(2)) *place = DrawPlace(dice);
  }
  if (dice.OneIn(2)) {
    plan.streaming.resident = static_cast<int>(dice.Roll(1, 4));
    plan.streaming.moved = static_cast<int>(dice.Roll(1, plan.streaming.resident));
  }
  if (dice.OneIn(2)) plan.range_bytes = program::kRangeElements * 4;
  if (dice.OneIn(2)) plan.slabs = program::kLeastSlabs;
  // Speculative updates of steps that clip are not those of others.
  if (plan.gradient_clip == 0 && dice.OneIn(2)) {
    plan.update = program::UpdatePolicy::kSpeculative;
  } else if (places.gradients.beyond_device()) {
    plan.update = program::UpdatePolicy::kSpooled;
  }
}

// One number moved.
void Spoil(Dice& dice, PlanShape& shape) {
  const int64_t by = dice.Roll(1, 2);
  switch (dice.Roll(0, 7)) {
    case 0:
      shape.data += by;
      break;
    case 1:
      shape.tensor += by;
      break;
    case 2:
      shape.context += by;
      break;
    case 3:
      shape.micro_batch += by;
      break;
    case 4:
      shape.sequence += by;
      break;
    case 5:
      shape.pipeline += by;
      break;
    case 6:
      if (!shape.stages.empty()) shape.stages[dice.Roll(0, shape.stages.size() - 1)] += by;
      break;
    default:
      if (shape.recompute_layers.has_value()) shape.recompute_layers->last += by;
  }
}

std::string TextOfPlaces(const program::Plan& plan) {
  if (plan.tier != program::Tier::kDevice) return "";
  const program::Places& p = plan.places;
  std::string text = absl::StrCat(" stream ", plan.streaming.resident, "/", plan.streaming.moved,
                                  " ranges ", plan.range_bytes, " slabs ", plan.slabs, " policy ",
                                  static_cast<int>(plan.update), " places");
  for (const program::Place& place : {p.parameters, p.gradients, p.optimizer, p.activations}) {
    absl::StrAppend(&text, " ", place.host, ",", place.ssd);
  }
  return text;
}

}  // namespace

std::string Job::Text() const {
  const program::GroupSizes& g = plan.groups;
  return absl::StrCat(
      "layers ", model.layers, " hidden ", model.hidden, " heads ", model.heads, "/",
      model.kv_heads, "x", model.head_size, " ffn ", model.ffn, " vocab ", model.vocab, " tied ",
      model.tied_embeddings, " sequence ", emit.sequence, " micro ", emit.micro_batch, " batch ",
      plan.global_batch, " leaves ", plan.virtual_shards, ": tensor ", g.tensor, " chunks ",
      emit.tensor_chunks, " context ", g.context, " method ", static_cast<int>(emit.context_method),
      " pipeline ", g.pipeline, " schedule ", static_cast<int>(plan.schedule), "x",
      plan.virtual_stages, " in flight ", plan.in_flight, " stages [",
      absl::StrJoin(shape.stages, ","), "] data ", g.data, " level ", static_cast<int>(plan.shard),
      " shard ", g.shard, " prefetch ", plan.prefetch_bytes, " order ",
      static_cast<int>(plan.micro_order), " recompute ", static_cast<int>(emit.recompute.mode),
      " [", absl::StrJoin(emit.recompute.save, ","), "] ", emit.recompute.first_layer, "-",
      emit.recompute.last_layer, emit.documents ? " documents" : "", overflows ? " overflows" : "",
      TextOfPlaces(plan));
}

Job LaidOut(Job job, const PlanShape& shape) {
  job.shape = shape;
  program::Plan& plan = job.plan;
  plan.groups = {.data = static_cast<int>(shape.data),
                 .tensor = static_cast<int>(shape.tensor),
                 .context = static_cast<int>(shape.context),
                 .pipeline = static_cast<int>(shape.pipeline)};
  plan.shard = static_cast<ShardLevel>(shape.shard);
  if (shape.shard_group > 0) {
    plan.groups.shard = static_cast<int>(shape.shard_group);
  } else if (plan.shard != ShardLevel::kNone) {
    plan.groups.shard = plan.groups.data;
  }
  plan.schedule = static_cast<ScheduleKind>(shape.schedule);
  plan.virtual_stages = static_cast<int>(shape.virtual_stages);
  plan.micro_order = static_cast<program::MicroOrder>(shape.layer_first);
  plan.virtual_shards = shape.virtual_shards;
  plan.global_batch = shape.global_batch;
  plan.stage_of_layer.clear();
  if (!shape.stages.empty()) {  // the embedding goes with the first, the head with the last
    plan.stage_of_layer.push_back(0);
    for (size_t s = 0; s < shape.stages.size(); ++s) {
      plan.stage_of_layer.insert(plan.stage_of_layer.end(), shape.stages[s], static_cast<int>(s));
    }
    plan.stage_of_layer.push_back(static_cast<int>(shape.stages.size()) - 1);
  }
  job.emit.micro_batch = shape.micro_batch;
  job.emit.sequence = shape.sequence;
  job.emit.tensor_degree = shape.tensor;
  job.emit.context_ranks = shape.context;
  job.emit.context_method = shape.context_method;
  job.emit.split_backward = shape.pipeline > 1 && program::Splits(plan.schedule);
  job.emit.recompute.save = shape.recompute_saves;
  if (shape.recompute_layers.has_value()) {
    job.emit.recompute.first_layer = shape.recompute_layers->first;
    job.emit.recompute.last_layer = shape.recompute_layers->last;
  }
  const int64_t tokens = shape.micro_batch * shape.sequence / shape.context;
  if (tokens % (job.emit.tensor_chunks * shape.tensor) != 0) job.emit.tensor_chunks = 1;
  return job;
}

std::optional<Job> DrawJob(uint64_t seed) {
  Dice dice(seed);
  Job job;
  PlanShape shape;
  shape.tensor = dice.Pick(std::array{1, 1, 2, 2, 3, 4});
  shape.pipeline = dice.Pick(std::array{1, 1, 2, 2, 3, 4});
  shape.data = dice.Pick(std::array{1, 1, 2, 2, 3, 4, 4, 6, 8});
  shape.context = dice.Pick(std::array{1, 1, 1, 2, 2, 3, 4});
  if (shape.data * shape.tensor * shape.context * shape.pipeline > 8) return std::nullopt;
  shape.context_method = static_cast<program::ContextMethod>(dice.Roll(0, 2));
  DrawModel(dice, shape, job.model);
  DrawPipeline(dice, shape, job.model);
  DrawRecompute(dice, job.model, shape, job.emit.recompute);
  DrawData(dice, shape);
  shape.sequence = dice.Roll(1, 12);
  if (shape.context > 1) shape.sequence = 2 * shape.context * dice.Roll(1, 5);
  shape.layers = job.model.layers;
  shape.heads = job.model.heads;
  shape.kv_heads = job.model.kv_heads;
  shape.ffn = job.model.ffn;
  job.emit.prefill_chunk = 0;
  job.emit.tensor_chunks = dice.Roll(1, 3);
  job.plan.evaluate_batch = dice.Roll(0, 5);
  job.plan.gradient_clip = dice.OneIn(2) ? 0.5 : 0;
  job.plan.prefetch_bytes = dice.OneIn(2) ? -1 : dice.Roll(0, 1 << 14);
  job.plan.scratch = worker::CollectiveScratchBytes;
  for (size_t i = job.order.size() - 1; i > 0; --i) {
    std::swap(job.order[i], job.order[dice.Roll(0, i)]);
  }
  if (dice.OneIn(6)) Spoil(dice, shape);
  if (shape.data * shape.tensor * shape.context * shape.pipeline > 12) return std::nullopt;
  if (dice.OneIn(3)) {
    const bool back = shape.schedule == PlanShape::Schedule::kZbv;
    const int64_t least =
        back ? 2 * shape.pipeline : (shape.virtual_stages - 1) * shape.pipeline + 1;
    job.plan.in_flight = static_cast<int>(least + dice.Roll(0, 4));
  }
  job.emit.documents = dice.OneIn(3);
  DrawPlaces(dice, job.plan);
  job.overflows = dice.OneIn(3);
  return LaidOut(std::move(job), shape);
}

}  // namespace strata::testing
