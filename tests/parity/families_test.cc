// Every family against transformers: see families_parity.py. In f64 node by node, through the
// kernels of one rank and of a tensor group, in bf16, and while decoding.
#include "model/families/families.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "model/saved_values.h"
#include "tests/parity/family_golden.h"
#include "tests/parity/interpreter.h"
#include "tests/parity/model_reference.h"

namespace strata::parity {
namespace {

using Mode = model::RecomputePlan::Mode;
using Tensors = std::map<std::string, std::vector<double>>;

constexpr double kTolerance = 1e-4;
constexpr double kBf16Tolerance = 2e-2;
// Of gradients that are 0 in exact arithmetic, such as a key bias's: they differ by rounding alone.
constexpr double kFloor = 1e-5;

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

void ExpectClose(const Tensors& found, const FamilyGolden& golden) {
  for (const auto& [name, values] : found) {
    const std::vector<float> expected = golden.Gradient(name);
    ASSERT_EQ(values.size(), expected.size()) << name;
    std::vector<double> error;
    for (size_t i = 0; i < values.size(); ++i) error.push_back(values[i] - expected[i]);
    const double norm = Norm({expected.begin(), expected.end()});
    EXPECT_LE(Norm(error), kTolerance * norm + kFloor) << name << " of norm " << norm;
  }
}

class FamiliesTest : public ::testing::TestWithParam<std::string> {
 protected:
  FamiliesTest() : golden_(GetParam()) {}

  model::EmitOptions Options() const {
    model::EmitOptions options;
    options.micro_batch = golden_.batch();
    options.sequence = golden_.sequence();
    options.prefill_chunk = 0;
    options.threads = 2;
    return options;
  }
  std::unique_ptr<Interpreter> Make(const model::EmitOptions& options) const {
    auto graph = model::EmitFamily(golden_.spec(), options);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) return nullptr;
    auto made = std::make_unique<Interpreter>(*std::move(graph), golden_.spec(), 2);
    for (size_t i = 0; i < made->graph().sets.size(); ++i) {
      std::vector<float> weights(made->graph().sets[i].elements);
      golden_.FillWeights(made->graph().sets[i], 0, absl::MakeSpan(weights));
      made->SetParameters(static_cast<int>(i), weights);
    }
    return made;
  }
  absl::Span<const int32_t> Tokens(int64_t step) const { return Of(golden_.tokens(), step); }
  absl::Span<const int32_t> Targets(int64_t step) const { return Of(golden_.targets(), step); }
  double Trained(int64_t step) const {
    const absl::Span<const int32_t> targets = Targets(step);
    return static_cast<double>(
        std::count_if(targets.begin(), targets.end(), [](int32_t target) { return target >= 0; }));
  }
  // The mean loss of a step, whose gradients are there then.
  double Train(Interpreter& interpreter, int64_t step, bool split = false) const {
    interpreter.ZeroGradients();
    const auto sum = interpreter.TrainPass(Tokens(step), Targets(step), 1 / Trained(step), split);
    EXPECT_TRUE(sum.ok()) << sum.status();
    return sum.ok() ? *sum / Trained(step) : 0;
  }
  static Tensors Gradients(const Interpreter& interpreter) {
    Tensors gradients;
    const std::vector<program::ParameterSet>& sets = interpreter.graph().sets;
    for (size_t s = 0; s < sets.size(); ++s) {
      const absl::Span<const float> values = interpreter.gradients(static_cast<int>(s));
      for (const program::ElementRun& run : ElementRuns(sets[s], 0, 0, sets[s].elements)) {
        const std::string& name = sets[s].tensors[run.tensor].logical_name(run.part);
        gradients[name].assign(&values[run.flat], &values[run.flat] + run.count);
      }
    }
    return gradients;
  }

  const FamilyGolden golden_;

 private:
  absl::Span<const int32_t> Of(const std::vector<int32_t>& all, int64_t step) const {
    const size_t count = static_cast<size_t>(golden_.batch() * golden_.sequence());
    return absl::MakeConstSpan(all).subspan(static_cast<size_t>(step) * count, count);
  }
};

TEST_P(FamiliesTest, GradientsInF64_AreThoseOfTransformers) {
  testing::NamedTensors weights;
  auto graph = model::EmitFamily(golden_.spec(), Options());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const program::ParameterSet& set : graph->sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      for (int part = 0; part < tensor.part_count(); ++part) {
        const std::vector<float> values = golden_.Weight(tensor.logical_name(part));
        weights[tensor.logical_name(part)].assign(values.begin(), values.end());
      }
    }
  }
  const std::vector<int32_t> tokens(Tokens(0).begin(), Tokens(0).end());
  const std::vector<int32_t> targets(Targets(0).begin(), Targets(0).end());
  testing::ModelGradients found =
      testing::GradientsOf(golden_.spec(), weights, golden_.sequence(), tokens, targets);
  const double rows = static_cast<double>(tokens.size());
  const double expected = golden_.losses()[0];
  EXPECT_NEAR(found.loss * rows / Trained(0), expected, 1e-5 * expected);
  for (auto& [name, gradient] : found.gradients) {
    for (double& value : gradient) value *= rows / Trained(0);
  }
  ExpectClose(found.gradients, golden_);
}

TEST_P(FamiliesTest, Gradients_AreThoseOfTransformers) {
  const std::unique_ptr<Interpreter> interpreter = Make(Options());
  ASSERT_NE(interpreter, nullptr);
  const double expected = golden_.losses()[0];
  EXPECT_NEAR(Train(*interpreter, 0), expected, 1e-5 * expected);
  ExpectClose(Gradients(*interpreter), golden_);
  const auto evaluated = interpreter->EvaluatePass(Tokens(0), Targets(0));
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_NEAR(*evaluated / Trained(0), expected, 1e-5 * expected);
}

TEST_P(FamiliesTest, TenSteps_HaveTheLossesAndNormsOfTransformers) {
  const std::unique_ptr<Interpreter> interpreter = Make(Options());
  ASSERT_NE(interpreter, nullptr);
  const std::vector<double> losses = golden_.losses(), norms = golden_.norms();
  for (int64_t step = 0; step < golden_.steps(); ++step) {
    const double loss = Train(*interpreter, step);
    EXPECT_NEAR(loss, losses[step], kTolerance * losses[step]) << "step " << step + 1;
    const auto norm = interpreter->Update(
        golden_.adamw(), LearningRate(golden_.schedule(), step + 1), golden_.gradient_clip());
    ASSERT_TRUE(norm.ok()) << norm.status();
    EXPECT_NEAR(*norm, norms[step], kTolerance * norms[step]) << "step " << step + 1;
  }
}

// What may not change a bit: a split backward, and which values are saved.
TEST_P(FamiliesTest, SplitsAndReplays_ChangeNoBit) {
  const std::unique_ptr<Interpreter> whole = Make(Options());
  ASSERT_NE(whole, nullptr);
  const double loss = Train(*whole, 0);
  const Tensors expected = Gradients(*whole);
  std::vector<model::RecomputePlan> plans(3);
  plans[1].mode = Mode::kSelective;
  plans[2].mode = Mode::kFull;
  for (const std::string& name : model::NamesOfSavableValues(golden_.spec().family)) {
    plans.emplace_back().save = {name};
  }
  for (const model::RecomputePlan& plan : plans) {
    for (const bool split : {false, true}) {
      model::EmitOptions options = Options();
      options.recompute = plan;
      options.split_backward = split;
      const std::unique_ptr<Interpreter> other = Make(options);
      ASSERT_NE(other, nullptr);
      EXPECT_EQ(Train(*other, 0, split), loss);
      EXPECT_EQ(Gradients(*other), expected)
          << "split " << split << " mode " << static_cast<int>(plan.mode) << " save "
          << (plan.save.empty() ? "" : plan.save[0]);
    }
  }
}

// Logits of the first batch's sequences, by chunks of 8, then row by row, beside those expected.
std::vector<float> Decode(const FamilyGolden& golden, Interpreter& interpreter) {
  std::vector<float> found;
  const int64_t sequence = golden.sequence(), prefilled = sequence - 4;
  for (int64_t sample = 0; sample < golden.batch(); ++sample) {
    interpreter.ClearCaches();
    for (int64_t at = 0; at < sequence;) {
      const bool prefill = at < prefilled;
      const int64_t rows = prefill ? std::min<int64_t>(8, prefilled - at) : 1;
      const auto logits = interpreter.Append(
          absl::MakeConstSpan(&golden.tokens()[sample * sequence + at], rows), prefill);
      EXPECT_TRUE(logits.ok()) << logits.status();
      if (!logits.ok()) return found;
      found.insert(found.end(), logits->begin(), logits->end());
      at += rows;
    }
  }
  return found;
}

TEST_P(FamiliesTest, DecodedLogits_AreThoseOfTransformers) {
  model::EmitOptions options = Options();
  options.prefill_chunk = 8;
  const std::unique_ptr<Interpreter> interpreter = Make(options);
  ASSERT_NE(interpreter, nullptr);
  const std::vector<float> expected = golden_.logits(), found = Decode(golden_, *interpreter);
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], kTolerance * largest) << i;
  }
}

// Autocast keeps the residual stream in f32, which is rounded here: single logits of these small
// models, whose weights are large, differ by more than losses and norms do.
TEST_P(FamiliesTest, InBf16_LossesAndNormsAreThoseOfAutocast) {
  model::EmitOptions options = Options();
  options.type = program::DType::kBF16;
  options.prefill_chunk = 8;
  const std::unique_ptr<Interpreter> interpreter = Make(options);
  ASSERT_NE(interpreter, nullptr);
  const double loss = golden_.bf16_loss();
  EXPECT_NEAR(Train(*interpreter, 0), loss, kBf16Tolerance * loss);
  std::vector<double> gradients;
  for (const auto& [name, gradient] : Gradients(*interpreter)) gradients.push_back(Norm(gradient));
  // Autocast's own norm may be as far from that of f32.
  const double norm = golden_.norms()[0], autocast = std::abs(golden_.bf16_norm() - norm);
  EXPECT_NEAR(Norm(gradients), norm, kBf16Tolerance * norm + autocast);
  const std::vector<float> expected = golden_.bf16_logits(), found = Decode(golden_, *interpreter);
  ASSERT_EQ(found.size(), expected.size());
  std::vector<double> error;
  for (size_t i = 0; i < expected.size(); ++i) error.push_back(found[i] - expected[i]);
  EXPECT_LE(Norm(error), 2 * kBf16Tolerance * Norm({expected.begin(), expected.end()}));
}

INSTANTIATE_TEST_SUITE_P(Goldens, FamiliesTest, ::testing::ValuesIn(FamilyGolden::Names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata::parity
