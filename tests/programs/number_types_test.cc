// Types as plan data: weights, masters, moments and gradients of every type make right programs in
// every layout, and take the bytes that their formats say.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "model/optimizer/sgd.h"
#include "program/compose/composer.h"
#include "program/readers/memory.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata {
namespace {

using model::NumberFormats;
using program::DType;
using program::StateFormat;
using testing::HasSubstr;

model::ModelSpec Spec() {
  model::ModelSpec spec;
  spec.layers = 4;
  spec.hidden = 36;
  spec.heads = 6;
  spec.kv_heads = 2;
  spec.head_size = 6;
  spec.ffn = 50;
  spec.vocab = 258;
  spec.context = 64;
  return spec;
}

struct Numbers {
  DType type = DType::kBF16;
  NumberFormats formats;
  bool sgd = false;
};

program::Plan PlanOf(const Numbers& numbers) {
  program::Plan plan;
  plan.global_batch = 8;
  plan.virtual_shards = 4;
  plan.scratch = program::ToyScratch;
  plan.gradient = numbers.formats.gradient;
  plan.master = numbers.formats.master;
  plan.moments =
      numbers.sgd ? model::SgdMoments(numbers.formats) : model::AdamWMoments(numbers.formats);
  plan.loss_scaling = numbers.type == DType::kF16;
  return plan;
}

// One rank; every shard level, with and without the tree; hybrid; stages; tensor and context
// groups; state on the host and on SSD.
std::vector<program::Plan> Layouts(const program::Plan& one) {
  using program::ShardLevel;
  std::vector<program::Plan> plans = {one};
  const auto add = [&](int data, int shard, ShardLevel level, int64_t virtual_shards) {
    program::Plan plan = one;
    plan.groups.data = data;
    plan.groups.shard = shard;
    plan.shard = level;
    plan.virtual_shards = virtual_shards;
    plans.push_back(plan);
  };
  for (const int64_t virtual_shards : {4, 0}) {
    add(2, 1, ShardLevel::kNone, virtual_shards);
    add(2, 2, ShardLevel::kOptimizer, virtual_shards);
    add(2, 2, ShardLevel::kGradients, virtual_shards);
    add(4, 4, ShardLevel::kParameters, virtual_shards);
    add(4, 2, ShardLevel::kParameters, virtual_shards);
  }
  program::Plan staged = one;
  staged.groups.pipeline = 2;
  staged.schedule = program::ScheduleKind::kZeroBubble;
  plans.push_back(staged);
  program::Plan home = one;
  home.tier = program::Tier::kDevice;
  for (program::Place* place : {&home.places.parameters, &home.places.gradients,
                                &home.places.optimizer, &home.places.activations}) {
    place->host = 1;
  }
  plans.push_back(home);
  for (program::Place* place : {&home.places.parameters, &home.places.gradients,
                                &home.places.optimizer, &home.places.activations}) {
    *place = {.ssd = 1};
  }
  home.update = program::UpdatePolicy::kSpooled;
  plans.push_back(home);
  for (const bool tensor : {true, false}) {
    program::Plan cut = one;
    (tensor ? cut.groups.tensor : cut.groups.context) = 2;
    plans.push_back(cut);
  }
  return plans;
}

absl::StatusOr<std::vector<program::StagePrograms>> Compose(const Numbers& numbers,
                                                            const program::Plan& plan) {
  model::EmitOptions options;
  options.sequence = 64;
  options.prefill_chunk = 0;
  options.type = numbers.type;
  options.set_alignment = numbers.formats.set_alignment();
  options.tensor_degree = plan.groups.tensor;
  options.tensor_chunks = 2;
  options.context_ranks = plan.groups.context;
  options.split_backward = plan.groups.pipeline > 1;
  auto graph = model::EmitFamily(Spec(), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return program::Compose(*std::move(graph), plan,
                          [&](const program::ParameterSet& set, const program::UpdateRange& range) {
                            return numbers.sgd ? model::EmitSgd(set, {}, numbers.formats, range)
                                               : model::EmitAdamW(set, {}, numbers.formats, range);
                          });
}

std::vector<Numbers> AllNumbers() {
  using State = NumberFormats::State;
  return {{.type = DType::kF32, .formats = {.gradient = DType::kBF16, .state = State::k8Bit}},
          {.type = DType::kBF16},
          {.type = DType::kBF16,
           .formats = {.gradient = DType::kBF16,
                       .master = StateFormat::kRemainder,
                       .state = State::k8Bit}},
          {.type = DType::kF16, .formats = {.state = State::kBF16}},
          {.type = DType::kBF16, .formats = {.master = StateFormat::kRemainder}, .sgd = true},
          {.type = DType::kF32, .sgd = true}};
}

TEST(NumberTypes, ProgramsOfEveryLayoutAreVerified) {
  for (const Numbers& numbers : AllNumbers()) {
    for (const program::Plan& plan : Layouts(PlanOf(numbers))) {
      const auto stages = Compose(numbers, plan);
      ASSERT_TRUE(stages.ok()) << stages.status();
      std::vector<const program::ProgramSet*> sets;
      for (const program::StagePrograms& stage : *stages) sets.push_back(&stage.set);
      const absl::Status status =
          program::Verify(sets, "train", {.sizes = stages->front().set.groups});
      EXPECT_TRUE(status.ok()) << Name(numbers.type) << ": " << status;
    }
  }
}

std::map<std::string, int64_t> ContentsOf(const program::StagePrograms& stage) {
  const program::MemoryReport report = program::ReadMemory(stage.set);
  std::map<std::string, int64_t> contents;
  for (const auto& content : report.tiers[static_cast<int>(program::Tier::kHost)].contents) {
    contents[content.what] += content.bytes;
  }
  return contents;
}

TEST(NumberTypes, EveryTypeIsARowOfTheMemoryReportWithTheBytesOfItsFormat) {
  for (const Numbers& numbers : AllNumbers()) {
    const auto stages = Compose(numbers, PlanOf(numbers));
    ASSERT_TRUE(stages.ok()) << stages.status();
    int64_t elements = 0;
    for (const program::ParameterSet& set : stages->front().set.sets) elements += set.elements;
    std::map<std::string, int64_t> contents = ContentsOf(stages->front());
    EXPECT_EQ(contents[absl::StrCat("weights, ", Name(numbers.type))],
              program::BytesOf(numbers.type, elements));
    if (numbers.type != DType::kF32) {
      EXPECT_EQ(contents[absl::StrCat("master, ", Name(numbers.formats.master))],
                program::BytesOf(numbers.formats.master, elements));
    }
    const StateFormat first = numbers.formats.moment(true);
    EXPECT_EQ(contents[absl::StrCat(numbers.sgd ? "momentum, " : "first moment, ", Name(first))],
              program::BytesOf(first, elements));
    if (!numbers.sgd) {
      EXPECT_EQ(contents[absl::StrCat("second moment, ", Name(first))],
                program::BytesOf(first, elements));
    }
    EXPECT_GT(contents[absl::StrCat("gradients, ", Name(numbers.formats.gradient))], 0);
  }
}

// Bytes of the train program's collectives, by purpose and type.
std::map<std::string, int64_t> Moved(const program::StagePrograms& stage) {
  std::map<std::string, int64_t> bytes;
  for (const program::Instruction& instruction : stage.set.find("train")->instructions) {
    if (instruction.mechanism != program::Mechanism::kCollective) continue;
    bytes[absl::StrCat(Name(instruction.purpose), " ", Name(instruction.communication.dtype))] +=
        instruction.communication.bytes;
  }
  return bytes;
}

TEST(NumberTypes, RanksGatherWeightsAndReduceGradientsInTheirTypes) {
  Numbers wide{.type = DType::kF32}, narrow{.type = DType::kBF16};
  narrow.formats.gradient = DType::kBF16;
  const auto zero1 = [](const Numbers& numbers) {
    program::Plan plan = PlanOf(numbers);
    plan.groups.data = plan.groups.shard = 2;
    plan.shard = program::ShardLevel::kOptimizer;
    return *Compose(numbers, plan);
  };
  std::map<std::string, int64_t> f32 = Moved(zero1(wide).front());
  std::map<std::string, int64_t> bf16 = Moved(zero1(narrow).front());
  // Gathers of weights have no type, and move half; sums of gradients are bf16's.
  EXPECT_EQ(2 * bf16["gather f32"], f32["gather f32"]);
  EXPECT_EQ(2 * bf16["reduce bf16"], f32["reduce f32"]);
  EXPECT_EQ(bf16["reduce f32"], 0);
}

TEST(NumberTypes, WhatCannotBeIsRefused) {
  const auto refused = [](const Numbers& numbers, const program::Plan& plan) {
    return std::string(Compose(numbers, plan).status().message());
  };
  Numbers f16{.type = DType::kF16, .formats = {.master = StateFormat::kRemainder}};
  EXPECT_THAT(refused(f16, PlanOf(f16)), HasSubstr("an f16 are no f32"));
  Numbers bf16;
  program::Plan speculative = PlanOf(bf16);
  speculative.tier = program::Tier::kDevice;
  speculative.places.optimizer.ssd = 1;
  speculative.update = program::UpdatePolicy::kSpeculative;
  EXPECT_THAT(refused(bf16, speculative), HasSubstr("speculative updates need weights in f32"));
  Numbers unaligned{.type = DType::kF32};
  program::Plan blocks = PlanOf({.formats = {.state = NumberFormats::State::k8Bit}});
  EXPECT_THAT(refused(unaligned, blocks), HasSubstr("elements of two tensors"));
}

}  // namespace
}  // namespace strata
