// Compute does not wait for communication that has nothing to do with it: over small programs of
// every kind, and over ones of GPT-2's size.
#include "program/testing/overlap.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/passes/layout.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::IsEmpty;

struct Named {
  std::string name;
  ProgramSet set;
};

template <typename Built>
Built Take(absl::StatusOr<Built> built) {
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

struct Layout {
  const char* name;
  ShardLevel level;
  int64_t virtual_shards;
};

// A rank's reduction needs the others' pieces, an all-gather nothing: ToyScratch.
Plan PlanOf(const Layout& layout, int data, int64_t batch) {
  Plan plan{.groups = {.data = data},
            .shard = layout.level,
            .virtual_shards = layout.virtual_shards,
            .global_batch = batch,
            .gradient_clip = 1,
            .scratch = ToyScratch};
  if (layout.level != ShardLevel::kNone) plan.groups.shard = data;
  return plan;
}

void AddComposed(std::vector<Named>& programs, const std::string& name, const LayerGraph& graph,
                 const Plan& plan, const UpdateEmitter& update) {
  for (StagePrograms& stage : Take(Compose(graph, plan, update)))
    programs.push_back({name, std::move(stage.set)});
}

std::vector<Named> ToyPrograms() {
  std::vector<Named> programs;
  for (const Layout& layout : {Layout{"none", ShardLevel::kNone, 4},
                               {"zero1", ShardLevel::kOptimizer, 4},
                               {"zero2", ShardLevel::kGradients, 4},
                               {"zero3", ShardLevel::kParameters, 0}}) {
    const int data = layout.level == ShardLevel::kParameters ? 4 : 2;
    AddComposed(programs, layout.name, ToyGraph({.blocks = 4}), PlanOf(layout, data, 8), ToyUpdate);
  }
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kInterleaved}) {
    Plan plan = PlanOf({"", ShardLevel::kNone, 0}, 1, 8);
    plan.groups.pipeline = 4;
    plan.schedule = kind;
    plan.virtual_stages = kind == ScheduleKind::k1F1B ? 1 : 2;
    AddComposed(programs, "pipeline stage", ToyGraph({.blocks = 14}), plan, ToyUpdate);
  }
  return programs;
}

// As many parameters as GPT-2 124M, on two ranks.
std::vector<Named> Gpt2Programs() {
  model::ModelSpec spec;
  spec.layers = 12;
  spec.hidden = 768;
  spec.heads = spec.kv_heads = 12;
  spec.head_size = 64;
  spec.ffn = 2048;
  spec.vocab = 50257;
  spec.context = 1024;
  const auto graph = model::EmitFamily(spec, {.sequence = 64});
  EXPECT_TRUE(graph.ok()) << graph.status();
  const UpdateEmitter update = [](const ParameterSet& set, const program::UpdateRange& range) {
    return model::EmitAdamW(set, {}, range);
  };
  std::vector<Named> programs;
  for (const Layout& layout : {Layout{"gpt2 none", ShardLevel::kNone, 2},
                               {"gpt2 zero1", ShardLevel::kOptimizer, 2},
                               {"gpt2 zero2", ShardLevel::kGradients, 0},
                               {"gpt2 zero3", ShardLevel::kParameters, 0}}) {
    AddComposed(programs, layout.name, *graph, PlanOf(layout, 2, 4), update);
  }
  return programs;
}

std::vector<Named> AllPrograms() {
  std::vector<Named> all = ToyPrograms();
  for (Named& named : Gpt2Programs()) all.push_back(std::move(named));
  return all;
}

int64_t Bytes(const ProgramSet& set) {
  int64_t sum = 0;
  for (const int64_t bytes : set.arena_bytes) sum += bytes;
  return sum;
}

TEST(OverlapTest, NoComputeWaitsForCommunicationThatItHasNothingToDoWith) {
  for (const Named& named : AllPrograms()) {
    for (const Program& program : named.set.programs) {
      const std::vector<std::string> waits =
          UnneededWaits(named.set, program, LayoutOptions{}.horizon_calls);
      EXPECT_THAT(waits, IsEmpty()) << named.name << ", " << program.name << ":\n"
                                    << absl::StrJoin(waits, "\n");
    }
  }
}

TEST(OverlapTest, WithoutAHorizonReductionsAreWaitedFor) {
  std::printf("%-22s %14s", "program", "bytes, calls 0");
  for (int calls = 1; calls <= 4; ++calls) std::printf("  %13d", calls);
  std::printf("   waits vanished\n");
  for (const Named& named : AllPrograms()) {
    std::printf("%-22s", named.name.c_str());
    size_t waits = 0;
    int64_t before = 0;
    for (int calls = 0; calls <= 4; ++calls) {
      ProgramSet set = WithoutLayout(named.set);
      ASSERT_TRUE(LayOut(set, {.horizon_calls = calls, .horizon_ops = calls > 0 ? 1 : 0}).ok());
      std::printf(" %14ld", static_cast<long>(Bytes(set)));
      const size_t left = UnneededWaits(set, set.programs[0], LayoutOptions{}.horizon_calls).size();
      if (calls == 0) waits = left, before = Bytes(set);
      if (calls >= LayoutOptions{}.horizon_calls) {
        EXPECT_EQ(left, 0u) << named.name;
      }
    }
    std::printf("   %zu of %s\n", waits, named.set.programs[0].name.c_str());
    EXPECT_LE(Bytes(named.set), 1.2 * static_cast<double>(before)) << named.name;
    if (named.name == "gpt2 none" || named.name == "zero3") {
      EXPECT_GT(waits, 0u) << named.name << ": this test shows nothing";
    }
  }
}

TEST(OverlapTest, ChunksOfTensorParallelBlocksDoNotWaitForEachOther) {
  model::ModelSpec spec;
  spec.layers = 1;
  spec.hidden = 512;
  spec.heads = spec.kv_heads = 8;
  spec.head_size = 64;
  spec.ffn = 1536;
  spec.vocab = 1024;
  spec.context = 256;
  const auto graph = model::EmitFamily(
      spec, {.sequence = 256, .tensor_degree = 4, .tensor_chunks = 4, .split_backward = true});
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::printf("%-28s %12s", "template", "frame, ops 0");
  for (int ops = 1; ops <= 3; ++ops) std::printf(" %12d", ops);
  std::printf("   waits vanished\n");
  for (const Template& emitted : graph->templates) {
    std::printf("%-28s", emitted.name.c_str());
    size_t before = 0;
    for (int ops = 0; ops <= 3; ++ops) {
      ProgramSet set{.groups = {.tensor = 4}, .templates = {emitted}};
      ASSERT_TRUE(LayOut(set, {.horizon_ops = ops}).ok());
      std::printf(" %12ld", static_cast<long>(set.templates[0].frame_bytes));
      const std::vector<std::string> left =
          UnneededWaits(set.templates[0], set.groups, LayoutOptions{}.horizon_ops);
      if (ops == 0) before = left.size();
      if (ops >= LayoutOptions{}.horizon_ops) {
        EXPECT_THAT(left, IsEmpty()) << emitted.name;
      }
    }
    std::printf("   %zu\n", before);
  }
}

// Of keys and values, not of their gradients.
bool BringsKeys(const Template& tmpl, const Op& op) {
  if (op.kind != OpKind::kCollective || op.communication.op != CollectiveOp::kRotate) return false;
  const int local = op.operands[0].slot - static_cast<int>(tmpl.formals.size());
  return local >= 0 && tmpl.locals[local].name == "keys and values";
}

// Whether op `later` waits for `earlier`, directly or through others, given in-order streams.
std::vector<bool> WaitedForBy(const Template& tmpl, int later) {
  std::vector<bool> waited(tmpl.ops.size(), false);
  std::vector<int> left = {later};
  while (!left.empty()) {
    const int op = left.back();
    left.pop_back();
    std::vector<int> before = tmpl.ops[op].dependencies;
    for (int o = op - 1; o >= 0; --o) {
      if (tmpl.ops[o].stream != tmpl.ops[op].stream) continue;
      before.push_back(o);
      break;
    }
    for (const int earlier : before) {
      if (!waited[earlier]) left.push_back(earlier);
      waited[earlier] = true;
    }
  }
  return waited;
}

// Around a ring the next part's keys and values travel while the present one's are attended to: the
// rotation that brings them is issued first, neither waits for the other, and what the attention
// itself waits for is the rotation before.
TEST(OverlapTest, APartOfTheContextRingTravelsUnderTheAttentionOfTheOneBefore) {
  constexpr int kRanks = 4;
  model::ModelSpec spec;
  spec.layers = 1;
  spec.hidden = 128;
  spec.heads = spec.kv_heads = 4;
  spec.head_size = 32;
  spec.ffn = 256;
  spec.vocab = 256;
  spec.context = 256;
  const auto graph = model::EmitFamily(spec, {.sequence = 256, .context_ranks = kRanks});
  ASSERT_TRUE(graph.ok()) << graph.status();
  int templates = 0;
  for (const Template& emitted : graph->templates) {
    ProgramSet set{.groups = {.context = kRanks}, .templates = {emitted}};
    ASSERT_TRUE(LayOut(set, {}).ok());
    const Template& tmpl = set.templates[0];
    std::vector<int> rotations, parts;  // ops
    for (int o = 0; o < static_cast<int>(tmpl.ops.size()); ++o) {
      const OpKind kind = tmpl.ops[o].kind;
      const bool part = kind == OpKind::kAttentionPart || kind == OpKind::kAttentionPartBackward;
      if (part) parts.push_back(o);
      if (BringsKeys(tmpl, tmpl.ops[o])) rotations.push_back(o);
    }
    if (parts.empty()) continue;
    ++templates;
    ASSERT_EQ(parts.size(), size_t{kRanks}) << tmpl.name;
    ASSERT_EQ(rotations.size(), size_t{kRanks - 1}) << tmpl.name;
    for (int step = 0; step + 1 < kRanks; ++step) {
      const std::string where = absl::StrCat(tmpl.name, " step ", step);
      EXPECT_LT(rotations[step], parts[step]) << where;
      EXPECT_FALSE(WaitedForBy(tmpl, parts[step])[rotations[step]]) << where;
      EXPECT_FALSE(WaitedForBy(tmpl, rotations[step])[parts[step]]) << where;
      EXPECT_TRUE(WaitedForBy(tmpl, parts[step + 1])[rotations[step]]) << where;
    }
  }
  EXPECT_EQ(templates, 3);  // forward, backward, evaluate
}

}  // namespace
}  // namespace strata::program
