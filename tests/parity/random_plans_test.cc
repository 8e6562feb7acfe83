// Any legal plan of any small model trains like one rank: random layouts over tensor, context,
// pipeline, data, shard level, hybrid groups, recompute and orders, and random models of odd sizes,
// run on loopback ranks, gradients compared tensor by tensor with f64.
//
//   random_plans_test [--plans=N] [--first=SEED]   (300 from 1)
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/loopback.h"
#include "common/rng.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/rope.h"
#include "model/families/llama.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/compose/check_plan.h"
#include "program/compose/composer.h"
#include "program/ir/mesh.h"
#include "program/readers/verify.h"
#include "tests/parity/model_reference.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/engine.h"

namespace strata {
namespace {

using program::PlanShape;
using program::Scalar;
using program::ScheduleKind;
using program::ShardLevel;

constexpr int kSteps = 3;
int64_t plans = 300, first_seed = 1;

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

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

// A job: its model, and how it is laid out.
struct Job {
  model::ModelSpec model;
  model::EmitOptions emit;
  program::Plan plan;
  std::array<program::Axis, program::kAxisCount> order = program::Mesh{}.order;

  program::Mesh mesh() const { return {plan.groups, order}; }
  std::string Text() const {
    const program::GroupSizes& g = plan.groups;
    return absl::StrCat(
        "layers ", model.layers, " hidden ", model.hidden, " heads ", model.heads, "/",
        model.kv_heads, "x", model.head_size, " ffn ", model.ffn, " vocab ", model.vocab, " tied ",
        model.tied_embeddings, " sequence ", emit.sequence, " micro ", emit.micro_batch, " batch ",
        plan.global_batch, " leaves ", plan.virtual_shards, ": tensor ", g.tensor, " chunks ",
        emit.tensor_chunks, " context ", g.context, " method ",
        static_cast<int>(emit.context_method), " pipeline ", g.pipeline, " schedule ",
        static_cast<int>(plan.schedule), "x", plan.virtual_stages, " stages [",
        absl::StrJoin(plan.stage_of_layer, ","), "] data ", g.data, " level ",
        static_cast<int>(plan.shard), " shard ", g.shard, " order ",
        static_cast<int>(plan.micro_order), " recompute ", static_cast<int>(emit.recompute.mode));
  }
};

PlanShape ShapeOf(const Job& job) {
  constexpr std::array<PlanShape::Schedule, 5> kSchedules = {
      PlanShape::Schedule::kGpipe, PlanShape::Schedule::k1F1B, PlanShape::Schedule::kInterleaved,
      PlanShape::Schedule::kZeroBubble, PlanShape::Schedule::kZbv};
  PlanShape shape;
  shape.data = job.plan.groups.data;
  shape.tensor = job.plan.groups.tensor;
  shape.context = job.plan.groups.context;
  shape.context_method = job.emit.context_method;
  shape.pipeline = job.plan.groups.pipeline;
  shape.virtual_stages = job.plan.virtual_stages;
  shape.shard = static_cast<PlanShape::Shard>(job.plan.shard);
  shape.shard_group = job.plan.shard == ShardLevel::kNone ? 0 : job.plan.groups.shard;
  shape.virtual_shards = job.plan.virtual_shards;
  shape.schedule = kSchedules[static_cast<size_t>(job.plan.schedule)];
  shape.global_batch = job.plan.global_batch;
  shape.micro_batch = job.emit.micro_batch;
  shape.sequence = job.emit.sequence;
  shape.layers = job.model.layers;
  shape.heads = job.model.heads;
  shape.kv_heads = job.model.kv_heads;
  shape.ffn = job.model.ffn;
  shape.vocab = job.model.vocab;
  return shape;
}

void DrawModel(Dice& dice, Job& job) {
  model::ModelSpec& m = job.model;
  const int64_t tensor = job.plan.groups.tensor;
  const bool shares = job.emit.context_method == program::ContextMethod::kAllToAll;
  const int64_t ranks = shares ? tensor * job.emit.context_ranks : tensor;  // that share heads
  m.layers = dice.Roll(1, 5);
  m.heads = ranks * dice.Roll(1, 3);
  std::vector<int64_t> fitting;
  for (int64_t kv = 1; kv <= m.heads; ++kv) {
    if (m.heads % kv == 0 && (kv % ranks == 0 || ranks % kv == 0)) fitting.push_back(kv);
  }
  m.kv_heads = fitting[dice.Roll(0, static_cast<int64_t>(fitting.size()) - 1)];
  m.head_size = 2 * dice.Roll(1, 4);
  m.hidden = dice.Roll(3, 21);
  m.ffn = tensor * dice.Roll(1, 13);
  m.vocab = tensor * dice.Roll(3, 12);
  m.context = 48;
  m.tied_embeddings = dice.OneIn(2);
  m.initial_std = 0.1;
}

// Nothing: what was drawn is no legal plan.
std::optional<Job> Draw(uint64_t seed) {
  Dice dice(seed);
  Job job;
  program::Plan& plan = job.plan;
  plan.groups.tensor = static_cast<int>(dice.Pick(std::array{1, 1, 2, 2, 3, 4}));
  plan.groups.pipeline = static_cast<int>(dice.Pick(std::array{1, 1, 2, 2, 3, 4}));
  plan.groups.data = static_cast<int>(dice.Pick(std::array{1, 1, 2, 2, 3, 4}));
  plan.groups.context = static_cast<int>(dice.Pick(std::array{1, 1, 1, 2, 2, 3, 4}));
  if (plan.groups.world() > 8) return std::nullopt;
  job.emit.context_ranks = plan.groups.context;
  job.emit.context_method = static_cast<program::ContextMethod>(dice.Roll(0, 2));
  DrawModel(dice, job);
  job.emit.micro_batch = dice.Roll(1, 2);
  job.emit.sequence = dice.Roll(1, 12);
  if (plan.groups.context > 1) job.emit.sequence = 2 * plan.groups.context * dice.Roll(1, 5);
  job.emit.prefill_chunk = 0;
  job.emit.tensor_degree = plan.groups.tensor;
  job.emit.tensor_chunks = dice.Roll(1, 3);
  job.emit.recompute.mode = dice.Pick(std::array{model::RecomputePlan::Mode::kNone,
                                                 model::RecomputePlan::Mode::kSelective,
                                                 model::RecomputePlan::Mode::kFull});
  plan.schedule = static_cast<ScheduleKind>(dice.Roll(0, 4));
  plan.virtual_stages = 1;
  if (plan.schedule == ScheduleKind::kZbv) plan.virtual_stages = 2;
  if (plan.schedule == ScheduleKind::kInterleaved) {
    plan.virtual_stages = static_cast<int>(dice.Roll(2, 3));
  }
  if (plan.groups.pipeline == 1) {
    plan.schedule = ScheduleKind::k1F1B;
    plan.virtual_stages = 1;
    plan.micro_order = static_cast<program::MicroOrder>(dice.Roll(0, 1));
  }
  plan.shard = static_cast<ShardLevel>(dice.Roll(0, 3));
  if (plan.shard != ShardLevel::kNone) {
    plan.groups.shard = plan.groups.data;
    if (plan.groups.data == 4 && dice.OneIn(2)) plan.groups.shard = 2;
  }
  const int64_t leaf_batches = dice.Roll(1, 3);
  plan.virtual_shards = dice.OneIn(4) ? 0 : plan.groups.data * (int64_t{1} << dice.Roll(0, 2));
  const int64_t leaves = std::max<int64_t>(plan.virtual_shards, plan.groups.data);
  plan.global_batch = leaves * leaf_batches * job.emit.micro_batch;
  plan.evaluate_batch = dice.Roll(0, 5);
  plan.gradient_clip = dice.OneIn(2) ? 0.5 : 0;
  plan.scratch = worker::CollectiveScratchBytes;
  for (size_t i = job.order.size() - 1; i > 0; --i) {
    std::swap(job.order[i], job.order[dice.Roll(0, i)]);
  }
  if (!program::CheckPlan(ShapeOf(job), {}).empty()) return std::nullopt;
  const int64_t tokens = job.emit.micro_batch * job.emit.sequence / plan.groups.context;
  if (tokens % (job.emit.tensor_chunks * plan.groups.tensor) != 0) {
    job.emit.tensor_chunks = 1;
  }
  job.emit.split_backward = plan.groups.pipeline > 1 && program::Splits(plan.schedule);
  return job;
}

// The same model and batch on one rank, with the same leaves.
Job OneRank(Job job) {
  const int64_t leaves = job.plan.virtual_shards;
  const program::Plan before = job.plan;
  job.plan = {};
  job.plan.virtual_shards = std::max<int64_t>(leaves, 1);
  job.plan.global_batch = before.global_batch;
  job.plan.evaluate_batch = before.evaluate_batch;
  job.plan.gradient_clip = before.gradient_clip;
  job.plan.scratch = worker::CollectiveScratchBytes;
  job.emit.tensor_degree = job.emit.context_ranks = 1;
  job.emit.split_backward = false;
  job.emit.recompute = {};
  job.order = program::Mesh{}.order;
  return job;
}

// Whether design promises one rank's bits: sums inside layers are not cut, the leaves are those of
// one tree, and no gradient comes from two places that a layout orders.
bool SharesBits(const Job& job) {
  const bool ordered =
      job.plan.groups.pipeline > 1 || job.plan.micro_order == program::MicroOrder::kLayerFirst;
  return job.plan.groups.tensor == 1 && job.plan.groups.context == 1 &&
         job.plan.virtual_shards > 0 && !(job.model.tied_embeddings && ordered);
}

// The rank's rows of every sequence.
std::vector<program::ContextRun> RunsOf(const Job& job, int rank) {
  const program::Mesh mesh = job.mesh();
  return program::ContextRuns(job.emit.sequence, mesh.sizes.context, mesh.context(rank));
}

int32_t TokenAt(int64_t sample, int64_t position, int64_t vocab) {
  return static_cast<int32_t>((sample * 5 + position * (sample % 3 + 1)) % vocab);
}

// Some are not trained on.
int32_t TargetAt(int64_t sample, int64_t position, int64_t vocab) {
  return (sample + position) % 5 == 4 ? -1 : TokenAt(sample, position + 1, vocab);
}

// Samples belong to leaves, leaves to ranks.
class Text final : public worker::HostOps {
 public:
  Text(const Job& job, int rank, const program::Decision& decision)
      : job_(job), data_index_(job.mesh().data(rank)), decision_(decision) {
    for (const program::ContextRun& run : RunsOf(job, rank)) {
      for (int64_t i = 0; i < run.count; ++i) positions_.push_back(run.position + i);
    }
  }

  absl::Status LoadBatch(int32_t* tokens, int32_t* targets, int64_t samples,
                         int64_t sequence) override {
    const int64_t batch = job_.plan.global_batch, vocab = job_.model.vocab;
    for (int64_t i = 0; i < samples * sequence; ++i) {
      const int64_t at = i / sequence, position = positions_[i % sequence];
      int64_t sample = 0;
      if (step <= kSteps) {
        const int64_t of_leaf = batch / decision_.leaves.count;
        sample = decision_.leaves.Of(data_index_, at / of_leaf) * of_leaf + at % of_leaf;
      } else {
        const program::EvaluateShape& shape = decision_.evaluate_shape;
        const int64_t row = decision_.leaves.RowOf(data_index_, at / shape.padded);
        const int64_t place = at % shape.padded;
        sample = row * shape.sequences + place;
        if (place >= shape.sequences || sample >= job_.plan.evaluate_batch) sample = -1;
      }
      const int64_t whole = step * batch + sample;
      tokens[i] = sample < 0 ? 0 : TokenAt(whole, position, vocab);
      targets[i] = sample < 0 ? -1 : TargetAt(whole, position, vocab);
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    const auto set = [&](Scalar scalar, double value) {
      scalars[static_cast<int>(scalar)] = value;
    };
    set(Scalar::kStep, static_cast<double>(step));
    set(Scalar::kApplied, static_cast<double>(std::min<int64_t>(step - 1, kSteps)));
    set(Scalar::kLearningRate, 0.01);
    set(Scalar::kInverseTokens,
        1.0 / static_cast<double>(job_.plan.global_batch * job_.emit.sequence));
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t step = 1;

 private:
  const Job& job_;
  const int data_index_;
  const program::Decision& decision_;
  std::vector<int64_t> positions_;  // of the rank's rows
};

struct Outcome {
  std::vector<double> losses, norms;  // of the steps; the last loss is the evaluation's
  // Of the first step, what of them the rank has: NaN where another does.
  testing::NamedTensors gradients;
};

// After one update the first moments are (1 − β1) times the clipped gradients.
void ReadGradients(const worker::Engine& engine, const program::StateSlots& slots,
                   const program::Mesh& mesh, int rank, Outcome& outcome) {
  const double factor = (1 - model::AdamWSpec{}.beta1) * engine.scalar(Scalar::kClipFactor);
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const program::ParameterSet& set = engine.programs().sets[s];
    const absl::Span<std::byte> bytes = engine.SlotBytes(slots.sets[s].moments[0], 0, 1);
    const auto* const moments = reinterpret_cast<const float*>(bytes.data());
    const int64_t count = static_cast<int64_t>(bytes.size()) / 4;
    const int64_t begin = slots.sets[s].state_parts > 1 ? mesh.shard(rank) * count : 0;
    for (const program::ElementRun& run :
         ElementRuns(set, mesh.tensor(rank), begin, begin + count)) {
      std::vector<double>& tensor =
          outcome.gradients[set.tensors[run.tensor].logical_name(run.part)];
      if (static_cast<int64_t>(tensor.size()) < run.first + run.count) {
        tensor.resize(run.first + run.count, std::nan(""));
      }
      for (int64_t i = 0; i < run.count; ++i) {
        tensor[run.first + i] = moments[run.flat - begin + i] / factor;
      }
    }
  }
}

void RunRank(const Job& job, const program::Decision& decision, program::StagePrograms stage,
             int rank, collectives::Communicator* communicator, Outcome& outcome) {
  const program::Mesh mesh = job.mesh();
  Text text(job, rank, decision);
  device::ThreadPool pool(1);
  worker::EngineOptions options;
  options.pool = &pool;
  options.host = &text;
  options.communicator = communicator;
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const program::StateSlots slots = stage.slots;
  auto engine = worker::Engine::Create(std::move(stage.set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto floats = [&](int slot) {
    const absl::Span<std::byte> bytes = (*engine)->SlotBytes(slot, 0, 0);
    return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4);
  };
  if (slots.constants[0] >= 0) {
    for (const program::ContextRun& run : RunsOf(job, rank)) {
      kernels::BuildRopeTable(run.position, run.count, job.model.head_size, job.model.rope_theta,
                              floats(slots.constants[0]).data() + run.first * job.model.head_size);
    }
  }
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const absl::Span<float> values = floats(slots.sets[s].parameters);
    const int64_t begin = slots.sets[s].parameter_parts > 1
                              ? mesh.shard(rank) * static_cast<int64_t>(values.size())
                              : 0;
    model::FillInitial((*engine)->programs().sets[s], 1, begin, values, mesh.tensor(rank));
  }
  for (; text.step <= kSteps; ++text.step) {
    const absl::Status status = (*engine)->RunStep(0, text.step - 1);
    ASSERT_TRUE(status.ok()) << status;
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
    if (text.step == 1) ReadGradients(**engine, slots, mesh, rank, outcome);
  }
  if (decision.evaluate.has_value()) {
    ASSERT_TRUE((*engine)->RunStep(1, kSteps).ok());
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
  }
  ASSERT_TRUE((*engine)->Drain().ok());
}

// Of every rank. What the verifier refuses is not run.
std::vector<Outcome> Train(const Job& job) {
  auto graph = model::EmitLlama(job.model, job.emit);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  auto decision = program::Decide(*std::move(graph), job.plan);
  EXPECT_TRUE(decision.ok()) << decision.status();
  if (!decision.ok()) return {};
  const program::Mesh mesh = job.mesh();
  std::vector<program::StagePrograms> stages;
  for (int s = 0; s < job.plan.groups.pipeline; ++s) {
    auto stage =
        program::ComposeStage(*decision, s, [](const program::ParameterSet& set, int64_t count) {
          return model::EmitAdamW(set, {}, count);
        });
    EXPECT_TRUE(stage.ok()) << stage.status();
    if (!stage.ok()) return {};
    stages.push_back(*std::move(stage));
  }
  std::vector<const program::ProgramSet*> sets;
  for (const program::StagePrograms& stage : stages) sets.push_back(&stage.set);
  for (const program::Program& program : sets[0]->programs) {
    const absl::Status verified = program::Verify(sets, program.name, mesh);
    EXPECT_TRUE(verified.ok()) << verified;
    if (!verified.ok()) return {};
  }
  const int ranks = mesh.ranks();
  auto communicators = collectives::LoopbackWorld(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] {
      RunRank(job, *decision, stages[mesh.stage(r)], r,
              ranks > 1 ? communicators[r].get() : nullptr, outcomes[r]);
    });
  }
  for (std::thread& thread : running) thread.join();
  return outcomes;
}

// Adam's first steps move every weight by the learning rate whatever the gradient's size, so that a
// gradient of nothing but rounding moves one too: steps after the first are compared less strictly.
void Compare(const Job& job, const std::vector<double>& found, const std::vector<double>& expected,
             const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (SharesBits(job)) {
      EXPECT_EQ(found[i], expected[i]) << what << " " << i;
    } else {
      const double tolerance = i == 0 ? 2e-5 : 5e-3;
      EXPECT_NEAR(found[i], expected[i], tolerance * (1e-3 + std::abs(expected[i])))
          << what << " " << i;
    }
  }
}

// The ranks' parts of the first step's gradients, tensor by tensor, against f64.
void CompareGradients(const Job& job, const std::vector<Outcome>& outcomes) {
  std::vector<int32_t> tokens, targets;
  for (int64_t sample = 0; sample < job.plan.global_batch; ++sample) {
    for (int64_t position = 0; position < job.emit.sequence; ++position) {
      const int64_t whole = job.plan.global_batch + sample;  // of step 1
      tokens.push_back(TokenAt(whole, position, job.model.vocab));
      targets.push_back(TargetAt(whole, position, job.model.vocab));
    }
  }
  const testing::ModelGradients expected = testing::GradientsOf(
      job.model, testing::InitialWeights(job.model, 1), job.emit.sequence, tokens, targets);
  EXPECT_NEAR(outcomes[0].losses[0], expected.loss, 2e-6 * expected.loss);
  for (const auto& [name, tensor] : expected.gradients) {
    std::vector<bool> seen(tensor.size());
    double squares = 0, off = 0;
    for (const double value : tensor) squares += value * value;
    for (const Outcome& outcome : outcomes) {
      const auto own = outcome.gradients.find(name);
      if (own == outcome.gradients.end()) continue;
      ASSERT_LE(own->second.size(), tensor.size()) << name;
      double of_rank = 0;
      for (size_t i = 0; i < own->second.size(); ++i) {
        if (std::isnan(own->second[i])) continue;
        seen[i] = true;
        of_rank += std::pow(own->second[i] - tensor[i], 2);
      }
      off = std::max(off, of_rank);
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](bool has) { return has; })) << name;
    // Beside the tensor's own size, that of the sums that cancel in it. Norms of few small numbers
    // make much of their rounding.
    EXPECT_LE(std::sqrt(off), 1e-5 * (std::sqrt(squares) + 0.1 * outcomes[0].norms[0])) << name;
  }
}

TEST(RandomPlans, AnyLegalPlanTrainsLikeOneRank) {
  int64_t done = 0, ranks = 0, exact = 0;
  for (uint64_t seed = first_seed; done < plans; ++seed) {
    const std::optional<Job> job = Draw(seed);
    if (!job.has_value()) continue;
    ++done;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job->Text()));
    const std::vector<Outcome> outcomes = Train(*job), one = Train(OneRank(*job));
    if (outcomes.empty() || one.empty()) break;
    ranks += static_cast<int64_t>(outcomes.size());
    exact += SharesBits(*job);
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.losses, outcomes[0].losses);
      EXPECT_EQ(outcome.norms, outcomes[0].norms);
    }
    CompareGradients(*job, outcomes);
    Compare(*job, outcomes[0].losses, one[0].losses, "loss");
    Compare(*job, outcomes[0].norms, one[0].norms, "norm");
    if (::testing::Test::HasFailure()) break;
  }
  std::cout << done << " plans of " << ranks << " ranks in all, " << exact
            << " with one rank's bits\n";
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (absl::StartsWith(word, "--plans=")) strata::plans = std::atoll(word.c_str() + 8);
    if (absl::StartsWith(word, "--first=")) strata::first_seed = std::atoll(word.c_str() + 8);
  }
  return RUN_ALL_TESTS();
}
