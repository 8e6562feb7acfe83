// What recompute plans, frozen weights and documents make of a Llama's templates. That gradients
// keep their bits is tests/parity/variants_test.cc's.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/flops.h"
#include "model/passes/weights.h"
#include "model/saved_values.h"

namespace strata::model {
namespace {

using program::LayerGraph;
using program::OpKind;
using program::Role;
using program::Template;
using Mode = RecomputePlan::Mode;

ModelSpec Spec() {
  ModelSpec spec;
  spec.layers = 3;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 64;
  return spec;
}

EmitOptions Options(Mode mode = Mode::kNone) {
  EmitOptions options;
  options.micro_batch = 2;
  options.sequence = 32;
  options.prefill_chunk = 8;
  options.recompute.mode = mode;
  return options;
}

LayerGraph Emit(const EmitOptions& options) {
  absl::StatusOr<LayerGraph> graph = EmitFamily(Spec(), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::string Refusal(const EmitOptions& options) {
  const absl::Status status = EmitFamily(Spec(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

int CountOps(const Template& counted, OpKind kind) {
  return static_cast<int>(std::count_if(counted.ops.begin(), counted.ops.end(),
                                        [&](const program::Op& op) { return op.kind == kind; }));
}

std::set<std::string> FormalNames(const Template& searched, Role role) {
  std::set<std::string> names;
  for (const program::Formal& formal : searched.formals) {
    if (formal.role == role) names.insert(formal.name);
  }
  return names;
}

const Template& Of(const LayerGraph& graph, int index) { return graph.templates.at(index); }

// The same ops on the same bytes, but that rope and attention read positions too.
TEST(DocumentsTest, BlocksReadPositionsAndNothingDecodes) {
  const LayerGraph without = Emit(Options());
  EmitOptions options = Options();
  options.documents = true;
  const LayerGraph graph = Emit(options);
  for (size_t l = 0; l < graph.layers.size(); ++l) {
    const program::LayerTemplates &with = graph.layers[l].templates,
                                  &plain = without.layers[l].templates;
    EXPECT_EQ(std::max(with.prefill, with.decode), -1);
    for (const auto& [index, other] : {std::pair{with.forward, plain.forward},
                                       {with.backward, plain.backward},
                                       {with.evaluate, plain.evaluate}}) {
      if (index < 0) continue;
      const std::set<std::string> read = FormalNames(Of(graph, index), Role::kPositions);
      EXPECT_EQ(read.size(), graph.layers[l].name.starts_with("layers.") ? 1u : 0u);
      EXPECT_TRUE(FormalNames(Of(without, other), Role::kPositions).empty());
      ASSERT_EQ(Of(graph, index).ops.size(), Of(without, other).ops.size());
      EXPECT_EQ(Of(graph, index).flops(), Of(without, other).flops());
    }
  }
}

TEST(RecomputeTest, Full_SavesNothingAndReplaysAllButTheLastProduct) {
  const LayerGraph graph = Emit(Options(Mode::kFull));
  const program::LayerTemplates& block = graph.layers[1].templates;
  EXPECT_EQ(block.evaluate, block.forward);
  EXPECT_TRUE(FormalNames(Of(graph, block.forward), Role::kSaved).empty());
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kMatMul), 8 + 3);
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kAttentionForward), 1);
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kRmsNormReplay), 0);
}

TEST(RecomputeTest, Selective_ReplaysAttentionFromTheSavedProjection) {
  const LayerGraph graph = Emit(Options(Mode::kSelective));
  const program::LayerTemplates& block = graph.layers[1].templates;
  EXPECT_THAT(FormalNames(Of(graph, block.forward), Role::kSaved),
              testing::UnorderedElementsAre("rstd1", "qkv", "residual", "rstd2", "gate_up"));
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kMatMul), 8);
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kAttentionForward), 1);
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kRope), 1);
}

TEST(RecomputeTest, Names_AreSavedExactlyOnTheirLayersAndTheRestAsByDefault) {
  EmitOptions options = Options();
  options.recompute.save = {"gate_up", "norm1"};
  options.recompute.first_layer = 1;
  options.recompute.last_layer = 1;
  const LayerGraph graph = Emit(options);
  const auto saved = [&](size_t layer) {
    return FormalNames(Of(graph, graph.layers[layer].templates.forward), Role::kSaved);
  };
  EXPECT_THAT(saved(2), testing::UnorderedElementsAre("gate_up", "norm1"));
  EXPECT_EQ(saved(1).size(), 7u);
  EXPECT_EQ(graph.layers[1].templates.backward, graph.layers[3].templates.backward);
  EXPECT_NE(graph.layers[1].templates.backward, graph.layers[2].templates.backward);
}

TEST(RecomputeTest, Flops_OfTheModelAreTheSameAndThoseRepeatedAreCounted) {
  const PassFlops none = CountTraining(Emit(Options()));
  const double rows = 2 * 32;
  const double products = 3 * 2 * rows * ((8 + 2 * 4) * 6 * 48 + 48 * 48 + 2 * 100 * 48);
  const double attention = 3 * rows * 2 * 32 * 48;
  for (const auto& [mode, repeated] :
       {std::pair(Mode::kSelective, attention), std::pair(Mode::kFull, attention + products)}) {
    const PassFlops flops = CountTraining(Emit(Options(mode)));
    EXPECT_DOUBLE_EQ(flops.model(), none.model());
    EXPECT_DOUBLE_EQ(flops.recomputed, none.recomputed + repeated);
  }
}

TEST(RecomputeTest, SplitBackward_RepeatsNoFlops) {
  std::vector<RecomputePlan> plans = {{Mode::kSelective}, {Mode::kFull}};
  for (const SavedValue& value : SavableValues(Spec())) {
    plans.push_back({.save = {value.name}});
  }
  for (const RecomputePlan& plan : plans) {
    EmitOptions options = Options();
    options.recompute = plan;
    options.split_backward = true;
    const LayerGraph graph = Emit(options);
    const program::LayerTemplates& block = graph.layers[1].templates;
    EXPECT_DOUBLE_EQ(
        Of(graph, block.backward).flops(),
        Of(graph, block.backward_input).flops() + Of(graph, block.backward_weight).flops());
  }
}

TEST(RecomputeTest, SplitBackwardOfFull_StashesTheNarrowerSideOfElementwiseWork) {
  EmitOptions options = Options(Mode::kFull);
  options.split_backward = true;
  const LayerGraph graph = Emit(options);
  EXPECT_THAT(FormalNames(Of(graph, graph.layers[1].templates.backward_weight), Role::kStash),
              testing::UnorderedElementsAre("activation", "norm2", "attention", "d_gate_up",
                                            "d_residual", "d_projected"));
}

TEST(RecomputeTest, EveryPlanOfATensorGroup_PassesTheStructuralChecks) {
  for (const int64_t degree : {2, 4}) {
    for (const bool split : {false, true}) {
      std::vector<RecomputePlan> plans = {{Mode::kSelective}, {Mode::kFull}};
      for (const SavedValue& value : SavableValues(Spec())) {
        plans.push_back({.save = {value.name}});
      }
      for (const RecomputePlan& plan : plans) {
        for (const char* frozen : {"", "*norm*", "*.o_proj.weight", "model.layers.0.*"}) {
          EmitOptions options = Options();
          options.tensor_degree = degree;
          options.split_backward = split;
          options.recompute = plan;
          if (*frozen != '\0') options.frozen = {frozen};
          EXPECT_EQ(Emit(options).layers.size(), 5u);
        }
      }
    }
  }
}

TEST(RecomputeTest, PlansThatMeanNothing_AreRefused) {
  EmitOptions options = Options();
  options.recompute.save = {"qkv", "gateup"};
  EXPECT_THAT(Refusal(options), testing::HasSubstr("gateup is not one of norm1, rstd1, qkv"));
  options.recompute.save = {"qkv"};
  options.recompute.mode = Mode::kFull;
  EXPECT_THAT(Refusal(options), testing::HasSubstr("mode none only"));
  options = Options(Mode::kFull);
  options.recompute.last_layer = 3;
  EXPECT_THAT(Refusal(options), testing::HasSubstr("layers 0 to 2"));
}

TEST(HeadTest, ChunkRowsOfATensorGroup_CutItsChunks) {
  EmitOptions options = Options();
  options.tensor_degree = 2;
  options.tensor_chunks = 2;  // 32 rows each
  options.head_chunk_rows = 16;
  const LayerGraph graph = Emit(options);
  const Template& head = Of(graph, graph.layers.back().templates.backward);
  std::vector<int64_t> rows;
  for (const program::Op& op : head.ops) {
    if (op.kind == OpKind::kCrossEntropyFinish) rows.push_back(op.ints[0]);
  }
  EXPECT_THAT(rows, testing::ElementsAre(16, 16, 16, 16));
}

TEST(FrozenTest, BelowTheFirstTrainableLayer_ThereIsNoBackwardAndNothingSaved) {
  EmitOptions options = Options();
  options.frozen = {"model.embed_tokens.weight", "model.layers.0.*"};
  const LayerGraph graph = Emit(options);
  for (const size_t layer : {0, 1}) {
    const program::LayerTemplates& templates = graph.layers[layer].templates;
    EXPECT_EQ(templates.backward, -1);
    EXPECT_EQ(templates.evaluate, templates.forward);
    EXPECT_TRUE(FormalNames(Of(graph, templates.forward), Role::kSaved).empty());
  }
  for (const program::ParameterSet& set : graph.sets) {
    const bool frozen = set.name == "embedding" || set.name.starts_with("layers.0");
    EXPECT_EQ(set.trainable, !frozen) << set.name;
  }
}

TEST(FrozenTest, FirstTrainableLayer_MakesNoGradientOfItsInput) {
  EmitOptions options = Options();
  options.frozen = {"model.embed_tokens.weight", "*norm*"};
  const LayerGraph graph = Emit(options);
  EXPECT_EQ(CountOps(Of(graph, graph.layers[1].templates.backward), OpKind::kMatMul), 7);
  EXPECT_EQ(CountOps(Of(graph, graph.layers[2].templates.backward), OpKind::kMatMul), 8);
  EXPECT_EQ(CountOps(Of(graph, graph.layers[1].templates.backward), OpKind::kRmsNormBackward), 1);
}

TEST(FrozenTest, LayerThatTrainsNothingBetweenOthers_HandsItsGradientOn) {
  EmitOptions options = Options();
  options.frozen = {"model.layers.1.*"};
  options.split_backward = true;
  const LayerGraph graph = Emit(options);
  const program::LayerTemplates& block = graph.layers[2].templates;
  EXPECT_EQ(CountOps(Of(graph, block.backward), OpKind::kMatMul), 4);
  EXPECT_EQ(block.backward_weight, -1);
  EXPECT_TRUE(FormalNames(Of(graph, block.backward), Role::kGradients).empty());
}

TEST(FrozenTest, SetOfWhichSomeTrain_IsSplit) {
  EmitOptions options = Options();
  options.frozen = {"*.self_attn.*"};
  const LayerGraph graph = Emit(options);
  std::vector<std::string> names;
  for (const int set : graph.layers[1].sets) names.push_back(graph.sets[set].name);
  EXPECT_THAT(names, testing::ElementsAre("layers.0.frozen", "layers.0", "layers.0.norms"));
  EXPECT_FALSE(graph.sets[graph.layers[1].sets[0]].trainable);
  EXPECT_TRUE(graph.sets[graph.layers[1].sets[1]].trainable);
}

TEST(FrozenTest, PatternsThatMeanNothing_AreRefused) {
  EmitOptions options = Options();
  options.frozen = {"model.layers.7.*"};
  EXPECT_THAT(Refusal(options), testing::HasSubstr("no tensor is named model.layers.7.*"));
  options.frozen = {"*.q_proj.weight"};
  EXPECT_THAT(Refusal(options), testing::HasSubstr("all or none"));
  options.frozen = {"*"};
  EXPECT_THAT(Refusal(options), testing::HasSubstr("left to train"));
}

TEST(FrozenTest, Matches_TakesStarsForAnyCharacters) {
  EXPECT_TRUE(Matches("a*c", "abc"));
  EXPECT_TRUE(Matches("a*c", "ac"));
  EXPECT_TRUE(Matches("*b*", "abc"));
  EXPECT_TRUE(Matches("*a*b", "aab"));
  EXPECT_TRUE(Matches("abc", "abc"));
  EXPECT_FALSE(Matches("a*c", "abcd"));
  EXPECT_FALSE(Matches("abc", "abcd"));
  EXPECT_FALSE(Matches("abcd", "abc"));
  EXPECT_FALSE(Matches("", "a"));
}

}  // namespace
}  // namespace strata::model
