// Whole steps of a small Llama-style model: the programs that the builders make, on real kernels,
// over the loopback communicator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/loopback.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/compose/decode.h"
#include "program/ir/mesh.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/engine.h"
#include "worker/engine/small_model.h"

namespace strata::worker {
namespace {

using program::Group;
using program::Scalar;

constexpr int kShards = 4;
program::Plan PlanOf(int data, program::ShardLevel level, int64_t shards = kShards) {
  program::Plan plan;
  plan.groups.data = data;
  plan.shard = level;
  if (level != program::ShardLevel::kNone) plan.groups.shard = data;
  plan.virtual_shards = shards;
  plan.global_batch = kSmallBatch;
  plan.evaluate_batch = kSmallBatch;
  plan.gradient_clip = 1;
  plan.scratch = CollectiveScratchBytes;
  return plan;
}

struct Outcome {
  std::vector<double> losses, norms;
  double validation = 0;
  std::vector<float> parameters;  // of the rank's parts
  int64_t arena_bytes = 0;
  bool operator==(const Outcome&) const = default;
};

void RunRank(int rank, const program::Plan& plan, bool tied, int threads, int steps,
             collectives::Communicator* communicator, Outcome& outcome) {
  model::ModelSpec spec = SmallModel();
  spec.tied_embeddings = tied;
  auto graph = model::EmitFamily(spec, SmallEmission());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto decision = program::Decide(*std::move(graph), plan);
  ASSERT_TRUE(decision.ok()) << decision.status();
  auto built = program::ComposeStage(
      *decision, 0, [](const program::ParameterSet& set, const program::UpdateRange& range) {
        return model::EmitAdamW(set, {}, range);
      });
  ASSERT_TRUE(built.ok()) << built.status();
  const program::Mesh mesh{.sizes = plan.groups};
  TextHost host(mesh.data(rank), decision->leaves);
  device::ThreadPool pool(threads);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  options.communicator = communicator;
  for (const Group group : program::kGroups) options.groups[group] = mesh.Members(group, rank);
  const program::StateSlots slots = built->slots;
  auto engine = Engine::Create(std::move(built->set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  FillSmallRope(**engine, slots.constants[0]);
  const auto parameters = [&](size_t set, int64_t applied) {
    return FloatsOf(**engine, slots.sets[set].parameters, applied);
  };
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    const absl::Span<float> values = parameters(s, 0);
    const int64_t begin = slots.sets[s].parameter_parts > 1
                              ? mesh.shard(rank) * static_cast<int64_t>(values.size())
                              : 0;
    model::FillInitial((*engine)->programs().sets[s], 1, begin, values);
  }
  for (int step = 0; step < steps; ++step, ++host.step) {
    const absl::Status status = (*engine)->RunStep(0, step);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ((*engine)->scalar(Scalar::kApply), 1.0);
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
  }
  ASSERT_TRUE((*engine)->RunStep(1, steps).ok());
  outcome.validation = (*engine)->scalar(Scalar::kLoss);
  ASSERT_TRUE((*engine)->Drain().ok());
  outcome.arena_bytes = (*engine)->arena_bytes(program::Tier::kHost);
  for (size_t s = 0; s < slots.sets.size(); ++s) {
    if (slots.sets[s].parameter_parts > 1) continue;
    const absl::Span<float> values = parameters(s, steps);
    outcome.parameters.insert(outcome.parameters.end(), values.begin(), values.end());
  }
}

struct World {
  bool tied = false;
  int threads = 1;
  int steps = 4;
};

std::vector<Outcome> RunWorld(const program::Plan& plan, const World& world = {}) {
  const int ranks = plan.groups.world();
  auto communicators = collectives::LoopbackWorld(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] {
      RunRank(r, plan, world.tied, world.threads, world.steps,
              ranks > 1 ? communicators[r].get() : nullptr, outcomes[r]);
    });
  }
  for (std::thread& thread : running) thread.join();
  return outcomes;
}

using program::ShardLevel;

TEST(ModelStep, LossFalls) {
  const Outcome outcome = RunWorld(PlanOf(1, ShardLevel::kNone), {.threads = 2, .steps = 30})[0];
  ASSERT_EQ(outcome.losses.size(), 30u);
  EXPECT_NEAR(outcome.losses.front(), 0.8 * std::log(29.0), 0.2);  // a fifth is masked
  EXPECT_LT(outcome.losses.back(), 0.7 * outcome.losses.front());
  EXPECT_LT(outcome.validation, 0.7 * outcome.losses.front());
}

TEST(ModelStep, AnotherNumberOfThreads_GivesTheSameBits) {
  const program::Plan plan = PlanOf(1, ShardLevel::kNone);
  EXPECT_TRUE(RunWorld(plan, {.threads = 2}) == RunWorld(plan));
}

// Every level of sharding, hybrid groups, and micro-batches layer first.
TEST(ModelStep, EveryLayoutWithTheSameLeaves_GivesTheSameBits) {
  for (const bool tied : {false, true}) {
    const Outcome one = RunWorld(PlanOf(1, ShardLevel::kNone, 8), {.tied = tied})[0];
    ASSERT_EQ(one.losses.size(), 4u);
    for (const int data : {1, 2, 4, 8}) {
      for (const int level : {0, 1, 2, 3}) {
        for (int shard = level == 0 ? data : 1; shard <= data; shard *= 2) {
          if (shard == 1 && data > 1) continue;
          for (const auto order :
               {program::MicroOrder::kDepthFirst, program::MicroOrder::kLayerFirst}) {
            // The two contributions to a tied table meet in another order.
            if (tied && order == program::MicroOrder::kLayerFirst) continue;
            program::Plan plan = PlanOf(data, static_cast<ShardLevel>(level), 8);
            if (level > 0) plan.groups.shard = shard;
            plan.micro_order = order;
            for (const Outcome& outcome : RunWorld(plan, {.tied = tied})) {
              const std::string layout = absl::StrCat("data ", data, ", level ", level, ", shard ",
                                                      shard, ", order ", static_cast<int>(order));
              EXPECT_EQ(outcome.losses, one.losses) << layout;
              EXPECT_EQ(outcome.norms, one.norms) << layout;
              EXPECT_EQ(outcome.validation, one.validation) << layout;
              if (level == 3) continue;  // it holds parts
              EXPECT_TRUE(outcome.parameters == one.parameters) << layout;
            }
          }
        }
      }
    }
  }
}

TEST(ModelStep, WithoutATree_LossesAreCloseAndRepeat) {
  const Outcome one = RunWorld(PlanOf(1, ShardLevel::kNone, 1))[0];
  for (const ShardLevel level : {ShardLevel::kGradients, ShardLevel::kParameters}) {
    const std::vector<Outcome> outcomes = RunWorld(PlanOf(2, level, 0));
    EXPECT_TRUE(outcomes == RunWorld(PlanOf(2, level, 0)));
    for (size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(outcomes[0].losses[step], one.losses[step], 1e-5 * one.losses[step]);
      EXPECT_NEAR(outcomes[0].norms[step], one.norms[step], 1e-5 * one.norms[step]);
    }
  }
}

TEST(ModelStep, WhateverIsGatheredAhead_GivesTheSameBits) {
  program::Plan plan = PlanOf(2, ShardLevel::kParameters, 4);
  const std::vector<Outcome> expected = RunWorld(plan);
  int64_t bytes = 0;
  for (const int64_t ahead : {0, 10'000, 1'000'000}) {
    plan.prefetch_bytes = ahead;
    const std::vector<Outcome> outcomes = RunWorld(plan);
    EXPECT_EQ(outcomes[0].losses, expected[0].losses) << ahead;
    EXPECT_GE(outcomes[0].arena_bytes, bytes) << ahead;
    bytes = outcomes[0].arena_bytes;
  }
}

// Feeds tokens of one text, chunk by chunk.
class PromptHost final : public HostOps {
 public:
  absl::Status LoadBatch(const BatchRows& rows) override {
    for (int64_t i = 0; i < rows.sequence; ++i) {
      rows.tokens[i] = i < valid ? TokenAt(7, position + i) : 0;
      rows.targets[i] = -1;
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    scalars[static_cast<int>(Scalar::kPosition)] = static_cast<double>(position);
    scalars[static_cast<int>(Scalar::kValidTokens)] = static_cast<double>(valid);
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t position = 0, valid = 0;
};

// The logits after `context` tokens of the text, the first `prefilled` of them in chunks of at
// most 8, the rest one by one.
std::vector<float> LogitsAfter(int64_t context, int64_t prefilled) {
  model::EmitOptions emission = SmallEmission();
  auto graph = model::EmitFamily(SmallModel(), emission);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto stages = program::BuildDecode(*graph, {});
  EXPECT_TRUE(stages.ok()) << stages.status();
  program::DecodePrograms* const built = &stages->front();
  PromptHost host;
  device::ThreadPool pool(2);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  const program::DecodeSlots slots = built->slots;
  auto engine = Engine::Create(std::move(built->set), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  FillSmallRope(**engine, slots.constants[0]);
  for (size_t s = 0; s < slots.parameters.size(); ++s) {
    model::FillInitial((*engine)->programs().sets[s], 1, 0,
                       FloatsOf(**engine, slots.parameters[s], 0));
  }
  int64_t last_row = 0;
  while (host.position < context) {
    const bool prefill = host.position < prefilled;
    host.valid = prefill ? std::min<int64_t>(8, prefilled - host.position) : 1;
    last_row = host.valid - 1;
    const absl::Status status = (*engine)->RunStep(prefill ? 0 : 1, 0);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    host.position += host.valid;
  }
  const absl::Span<std::byte> bytes = (*engine)->SlotBytes(slots.logits, 0, 0);
  const auto* logits = reinterpret_cast<const float*>(bytes.data()) + last_row * 29;
  return {logits, logits + 29};
}

TEST(ModelStep, DecodingGivesTheSameLogitsHoweverThePromptIsCut) {
  // 32 is the whole context, so that the last chunk's padding reaches beyond it.
  const std::vector<float> expected = LogitsAfter(30, 30);
  float largest = 0;
  for (const float logit : expected) largest = std::max(largest, std::abs(logit));
  EXPECT_GT(largest, 0.01f);
  for (const int64_t prefilled : {27, 8, 3, 0}) {
    const std::vector<float> logits = LogitsAfter(30, prefilled);
    for (size_t v = 0; v < expected.size(); ++v) {
      EXPECT_NEAR(logits[v], expected[v], 1e-4f * largest) << prefilled << " prefilled, " << v;
    }
  }
}

}  // namespace
}  // namespace strata::worker
