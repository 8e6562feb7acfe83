// Every node rule's derivative against finite differences in f64, alone and in whole layers.
#include "model/passes/differentiate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/graph/nodes.h"
#include "model/graph/reference.h"

namespace strata::model {
namespace {

using program::Role;

constexpr int64_t kBatch = 2;
constexpr int64_t kSequence = 5;
constexpr Heads kHeads{4, 2, 6};

WeightId UseMatrix(Graph& graph, int64_t rows, int64_t columns) {
  Weight weight;
  weight.tensor.shape = {rows, columns};
  return graph.Use(weight);
}

WeightId UseScale(Graph& graph, int64_t size) {
  Weight weight;
  weight.tensor.shape = {size};
  return graph.Use(weight);
}

void FillNormal(uint64_t key, Reference::Numbers& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = common::NormalAt(key, i);
}

// What is differentiated: Σ output · its gradient, plus the loss.
double Objective(Reference& reference) {
  reference.Forward();
  const ValueId output = reference.graph.output;
  if (output < 0) return reference.loss;
  const Reference::Numbers& y = reference.values[output];
  const Reference::Numbers& dy = reference.values[reference.graph.output_gradient];
  return std::inner_product(y.begin(), y.end(), dy.begin(), reference.loss);
}

void ExpectSlopes(Reference& reference, Reference::Numbers& varied,
                  const Reference::Numbers& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(varied.size(), gradient.size()) << what;
  for (size_t i = 0; i < varied.size(); i += 1 + varied.size() / 60) {
    const double at = varied[i];
    varied[i] = at + kStep;
    const double above = Objective(reference);
    varied[i] = at - kStep;
    const double below = Objective(reference);
    varied[i] = at;
    EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-6 * (1 + std::abs(gradient[i])))
        << what << " " << i;
  }
}

// Sequences of documents of 1, 2, 1 and more rows.
void FillPositions(Reference::Numbers& positions) {
  for (size_t row = 0; row < positions.size(); ++row) {
    const int64_t place = static_cast<int64_t>(row) % kSequence;
    const int64_t begin = place == 0 ? 0 : place < 3 ? 1 : place == 3 ? 3 : 4;
    positions[row] = static_cast<double>(place - begin);
  }
}

// Differentiates the graph and compares all its gradients.
void ExpectDerivative(Graph graph) {
  Differentiate(graph);
  Reference reference(graph, kBatch, kSequence);
  for (size_t i = 0; i < graph.weights.size(); ++i) FillNormal(100 + i, reference.weights[i]);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].given == Role::kAny) continue;
    Reference::Numbers& given = reference.values[i];
    FillNormal(i, given);
    if (graph.values[i].given == Role::kPositions) FillPositions(given);
    if (graph.values[i].given != Role::kTokens && graph.values[i].given != Role::kTargets) continue;
    const bool targets = graph.values[i].given == Role::kTargets;
    for (size_t row = 0; row < given.size(); ++row) {
      given[row] = targets && row % 4 == 1 ? -1 : static_cast<double>(row * 5 % 7);
    }
  }
  reference.Forward();
  reference.Backward();
  if (graph.input >= 0) {
    ExpectSlopes(reference, reference.values[graph.input], reference.values[graph.input_gradient],
                 "input");
  }
  for (size_t i = 0; i < graph.weights.size(); ++i) {
    const Reference::Numbers gradient = reference.weight_gradients[i];
    ExpectSlopes(reference, reference.weights[i], gradient, "weight " + std::to_string(i));
  }
}

Graph WithInput(int64_t width) {
  Graph graph("rule", 1);
  graph.input = graph.Given("input", width, Layout::kRows, Role::kInput);
  return graph;
}

ValueId PositionsOf(Graph& graph) {
  return graph.Given("positions", 1, Layout::kWhole, Role::kPositions);
}

TEST(DifferentiateTest, Embed) {
  Graph g("rule", 1);
  const WeightId table = UseMatrix(g, 7, 4);
  g.output = Embed(g, g.Given("tokens", 1, Layout::kWhole, Role::kTokens), table, 1.5, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Norm) {
  Graph g = WithInput(8);
  g.output = Norm(g, g.input, UseScale(g, 8), {.epsilon = 1e-3}, "y", "rstd");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, NormBesideAnotherReader_AddsToItsGradient) {
  Graph g = WithInput(8);
  g.output =
      Add(g, g.input, Norm(g, g.input, UseScale(g, 8), {.epsilon = 1e-3}, "normed", "rstd"), "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Linear) {
  Graph g = WithInput(6);
  g.output = Linear(g, g.input, UseMatrix(g, 9, 6), "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, LinearOfAValueReadTwice_AddsItsGradients) {
  Graph g = WithInput(6);
  const ValueId first = Linear(g, g.input, UseMatrix(g, 6, 6), "first");
  g.output = Add(g, first, Linear(g, g.input, UseMatrix(g, 6, 6), "second"), "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Scale) {
  Graph g = WithInput(6);
  g.output = Scale(g, g.input, -0.75, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Adapt) {
  Graph g = WithInput(5);
  const ValueId h = Linear(g, g.input, UseMatrix(g, 4, 5), "h");
  const ValueId base = Linear(g, g.input, UseMatrix(g, 9, 5), "base");
  // The base's columns 1 to 3 by the first two of h, 5 to 6 and 7 to 8 by the last two.
  g.output = Adapt(g, h, base, UseMatrix(g, 7, 2), {{3, 1, 0}, {2, 5, 2}, {2, 7, 2}}, 0, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Rope) {
  Graph g = WithInput(8 * 6);
  g.output = Rope(g, g.input, -1, kHeads, {}, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Attention) {
  Graph g = WithInput(8 * 6);
  g.output = Attention(g, g.input, -1, kHeads, {}, "y", "log_sum_exp");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, RopeOfDocuments) {
  Graph g = WithInput(8 * 6);
  g.output = Rope(g, g.input, PositionsOf(g), kHeads, {}, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, AttentionOfDocuments) {
  Graph g = WithInput(8 * 6);
  g.output = Attention(g, g.input, PositionsOf(g), kHeads, {}, "y", "log_sum_exp");
  ExpectDerivative(g);
}

constexpr Function kFunctions[] = {Function::kSilu, Function::kGeluTanh, Function::kGelu};

TEST(DifferentiateTest, Glu) {
  for (const Function function : kFunctions) {
    Graph g = WithInput(10);
    g.output = Glu(g, g.input, function, "y");
    ExpectDerivative(g);
  }
}

TEST(DifferentiateTest, Activate) {
  for (const Function function : kFunctions) {
    Graph g = WithInput(10);
    g.output = Activate(g, g.input, function, "y");
    ExpectDerivative(g);
  }
}

TEST(DifferentiateTest, NormWithOneAdded) {
  Graph g = WithInput(8);
  const NormOptions options{.epsilon = 1e-3, .plus_one = true};
  g.output = Norm(g, g.input, UseScale(g, 8), options, "y", "rstd");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, LayerNorm) {
  Graph g = WithInput(8);
  const WeightId weight = UseScale(g, 8), bias = UseScale(g, 8);
  g.output = Add(g, g.input, LayerNorm(g, g.input, weight, bias, 1e-3, "normed", "rstd"), "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, HeadNorm) {
  for (const bool plus_one : {false, true}) {
    Graph g = WithInput(8 * 6);
    const WeightId queries = UseScale(g, 6), keys = UseScale(g, 6);
    g.output = HeadNorm(g, g.input, queries, keys, kHeads, {.epsilon = 1e-3, .plus_one = plus_one},
                        "y", "rstd");
    ExpectDerivative(g);
  }
}

TEST(DifferentiateTest, Bias) {
  Graph g = WithInput(6);
  Weight weight;
  weight.tensor.shape = {9};
  weight.cut = 0;
  Weight matrix;
  matrix.tensor.shape = {9, 6};
  matrix.cut = 0;
  const WeightId w = g.Use(matrix), b = g.Use(weight);
  g.output = Bias(g, Linear(g, g.input, w, "product"), b, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Positions) {
  for (const bool documents : {false, true}) {
    Graph g = WithInput(4);
    const ValueId positions = documents ? PositionsOf(g) : -1;
    g.output = AddPositions(g, g.input, positions, UseMatrix(g, kSequence, 4), "y");
    ExpectDerivative(g);
  }
}

TEST(DifferentiateTest, RopeOfAPartOfHeads) {
  Graph g = WithInput(8 * 6);
  g.output = Rope(g, g.input, -1, kHeads, {.rotary = 4}, "y");
  ExpectDerivative(g);
}

TEST(DifferentiateTest, AttentionInAWindowWithSoftcap) {
  for (const bool documents : {false, true}) {
    Graph g = WithInput(8 * 6);
    const ValueId positions = documents ? PositionsOf(g) : -1;
    g.output = Attention(g, g.input, positions, kHeads, {.window = 2, .softcap = 1.5, .scale = 0.7},
                         "y", "log_sum_exp");
    ExpectDerivative(g);
  }
}

TEST(DifferentiateTest, LossWithSoftcap) {
  Graph g = WithInput(7);
  const ValueId logits = Linear(g, g.input, UseMatrix(g, 7, 7), "logits");
  g.logits = Softcap(g, logits, 2, "capped");
  Loss(g, logits, g.Given("targets", 1, Layout::kWhole, Role::kTargets), 2);
  ExpectDerivative(g);
}

TEST(DifferentiateTest, Loss) {
  Graph g = WithInput(7);
  Loss(g, Linear(g, g.input, UseMatrix(g, 7, 7), "logits"),
       g.Given("targets", 1, Layout::kWhole, Role::kTargets), 0);
  ExpectDerivative(g);
}

Graph Block() {
  Graph g = WithInput(8);
  const ValueId normed = Norm(g, g.input, UseScale(g, 8), {.epsilon = 1e-3}, "norm1", "rstd1");
  const ValueId qkv =
      Rope(g, Linear(g, normed, UseMatrix(g, 48, 8), "projected"), -1, kHeads, {}, "qkv");
  const ValueId attention = Attention(g, qkv, -1, kHeads, {}, "attention", "log_sum_exp");
  const ValueId residual =
      Add(g, g.input, Linear(g, attention, UseMatrix(g, 8, 24), "attended"), "residual");
  const ValueId again = Norm(g, residual, UseScale(g, 8), {.epsilon = 1e-3}, "norm2", "rstd2");
  const ValueId h =
      Glu(g, Linear(g, again, UseMatrix(g, 20, 8), "gate_up"), Function::kSilu, "activation");
  g.output = Add(g, residual, Linear(g, h, UseMatrix(g, 8, 10), "down"), "output");
  return g;
}

TEST(DifferentiateTest, Block) { ExpectDerivative(Block()); }

TEST(DifferentiateTest, WrongDerivative_IsFound) {
  Graph g = Block();
  Differentiate(g);
  Reference reference(g, kBatch, kSequence);
  for (size_t i = 0; i < g.weights.size(); ++i) FillNormal(100 + i, reference.weights[i]);
  FillNormal(1, reference.values[g.input]);
  FillNormal(2, reference.values[g.output_gradient]);
  reference.Forward();
  reference.Backward();
  Reference::Numbers damaged = reference.values[g.input_gradient];
  damaged[0] *= 1.001;
  const double at = reference.values[g.input][0];
  reference.values[g.input][0] = at + 1e-5;
  const double above = Objective(reference);
  reference.values[g.input][0] = at - 1e-5;
  EXPECT_GT(std::abs((above - Objective(reference)) / 2e-5 - damaged[0]),
            1e-6 * (1 + std::abs(damaged[0])));
}

TEST(LiveBackwardTest, FrozenWeights_HaveNoNodeAndChainsToNothingVanish) {
  Graph g = Block();
  for (Weight& weight : g.weights) weight.trainable = false;
  g.weights.back().trainable = true;  // the last product's
  Differentiate(g);
  const std::vector<NodeId> live = LiveBackward(g, false);
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(g.nodes[live[0]].kind, NodeKind::kLinearWeightGradient);
  const std::vector<NodeId> chain = LiveBackward(g, true);
  const auto is_weight = [&](NodeId id) { return g.nodes[id].phase == Phase::kWeight; };
  EXPECT_EQ(std::count_if(chain.begin(), chain.end(), is_weight), 1);
  EXPECT_EQ(chain.size(), 1u + 9);  // four products, two norms, rope, attention, swiglu
}

}  // namespace
}  // namespace strata::model
