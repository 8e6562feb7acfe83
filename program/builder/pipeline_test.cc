#include "program/builder/pipeline.h"

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/passes/dump.h"
#include "program/passes/memory.h"
#include "program/passes/timeline.h"
#include "program/passes/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;

constexpr int kStages = 4, kBlocks = 8, kMicroBatches = 8;

// The toy graph with the gradient of the head's norm a partial sum over the tensor group, as where
// each rank has its own rows.
LayerGraph Graph(bool tied) {
  LayerGraph graph = ToyGraph({.blocks = kBlocks, .tied = tied});
  const LayerTemplates& head = graph.layers.back().templates;
  for (const int index : {head.backward, head.backward_input}) {
    Template& tmpl = graph.templates[index];
    for (Op& op : tmpl.ops) {
      for (Operand& operand : op.operands) {
        if (operand.slot >= static_cast<int>(tmpl.formals.size())) continue;
        const Formal& formal = tmpl.formals[operand.slot];
        if (formal.role == Role::kGradients && formal.index == 0) {
          operand.partial = PartialOver(Group::kTensor);
        }
      }
    }
  }
  return graph;
}

PipelineOptions Options(ScheduleKind kind, int tensor = 2) {
  PipelineOptions options{.tensor = tensor, .gradient_clip = 1, .scratch = ToyScratch};
  options.schedule = {.kind = kind,
                      .stages = kStages,
                      .virtual_stages = kind == ScheduleKind::k1F1B ? 1 : 2,
                      .micro_batches = kMicroBatches};
  return options;
}

std::vector<ProgramSet> Build(const PipelineOptions& options, bool tied = true) {
  auto built = BuildPipeline(Graph(tied), ToyUpdate, options);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

std::vector<const ProgramSet*> Pointers(const std::vector<ProgramSet>& sets) {
  std::vector<const ProgramSet*> pointers;
  for (const ProgramSet& set : sets) pointers.push_back(&set);
  return pointers;
}

Mesh MeshOf(const std::vector<ProgramSet>& sets) { return {.sizes = sets.front().groups}; }

absl::Status VerifyAll(const std::vector<ProgramSet>& sets) {
  return Verify(Pointers(sets), "train", MeshOf(sets));
}

TEST(PipelineTest, EverySchedule_IsVerifiedOnEveryStage) {
  for (const ScheduleKind kind :
       {ScheduleKind::k1F1B, ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble}) {
    for (const bool tied : {false, true}) {
      for (const int tensor : {1, 2, 4}) {
        const std::vector<ProgramSet> built = Build(Options(kind, tensor), tied);
        ASSERT_EQ(built.size(), 4u);
        EXPECT_TRUE(VerifyAll(built).ok()) << VerifyAll(built);
      }
    }
  }
}

TEST(PipelineTest, Look) {
  for (const ScheduleKind kind :
       {ScheduleKind::k1F1B, ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble}) {
    const std::vector<ProgramSet> built = Build(Options(kind, 1), true);
    const RateCostModel costs({.flops_per_second = 1e9,
                               .memory_bytes_per_second = 1e12,
                               .link_bytes_per_second = 1e9,
                               .link_latency_seconds = 0});
    auto timeline = PredictTimeline(Pointers(built), "train", MeshOf(built), costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    printf("%g\n", timeline->step_seconds);
    for (int r = 0; r < 4; ++r) puts(timeline->Draw(r, 150).c_str());
    puts(ReadMemory(built[0]).ToText().c_str());
    puts(Dump(built[0], built[0].programs[0]).c_str());
  }
}

}  // namespace
}  // namespace strata::program
