// Templates of a tensor group against those of one rank: losses and gradients, with weights that
// begin as cuts of the same whole ones; and recompute plans, which change no bit.
#include "tests/parity/tensor_group.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/family_defaults.h"
#include "model/initialize.h"

namespace strata::parity {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kSequence = 32;
using Mode = model::RecomputePlan::Mode;

model::ModelSpec Spec(int64_t kv_heads) {
  model::ModelSpec spec;
  spec.layers = 2;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = kv_heads;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 261;  // which no degree divides: the last shares end in padding
  spec.context = 40;
  spec.initial_std = 0.1;
  return spec;
}

model::EmitOptions Options(int64_t degree, int64_t chunks) {
  model::EmitOptions options;
  options.micro_batch = kBatch;
  options.sequence = kSequence;
  options.prefill_chunk = 0;
  options.tensor_degree = degree;
  options.tensor_chunks = chunks;
  return options;
}

struct Outcome {
  std::vector<double> losses;                             // of the ranks
  std::map<std::string, std::map<int64_t, float>> whole;  // gradients by name and element
  std::vector<std::vector<float>> ranks;                  // as each rank holds them
};

Outcome Train(const model::EmitOptions& options, const model::ModelSpec& spec = Spec(4)) {
  Outcome outcome;
  auto graph = model::EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return outcome;
  const int degree = static_cast<int>(options.tensor_degree);
  TensorGroup group(*std::move(graph), spec, degree);
  const std::vector<program::ParameterSet>& sets = group.graph().sets;
  for (int rank = 0; rank < degree; ++rank) {
    for (size_t s = 0; s < sets.size(); ++s) {
      model::FillInitial(sets[s], 7, 0, group.parameters(rank, static_cast<int>(s)), rank);
    }
  }
  std::vector<int32_t> tokens(kBatch * kSequence), targets(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(common::MixBits(i, 1) % 261);
    targets[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(common::MixBits(i, 2) % 261);
  }
  std::vector<int32_t> positions;  // documents of 9 and 4 tokens, the last of a sequence cut
  for (size_t i = 0; options.documents && i < tokens.size(); ++i) {
    const int32_t place = static_cast<int32_t>(i % kSequence % 13);
    positions.push_back(place < 9 ? place : place - 9);
  }
  const auto losses = group.TrainPass(tokens, targets, 1.0 / 55, options.split_backward, positions);
  EXPECT_TRUE(losses.ok()) << losses.status();
  if (!losses.ok()) return outcome;
  outcome.losses = *losses;
  for (int rank = 0; rank < degree; ++rank) {
    for (size_t s = 0; s < sets.size(); ++s) {
      const absl::Span<const float> values = group.gradients(rank, static_cast<int>(s));
      outcome.ranks.emplace_back(values.begin(), values.end());
      for (const program::ElementRun& run : ElementRuns(sets[s], rank, 0, sets[s].elements)) {
        auto& whole = outcome.whole[sets[s].tensors[run.tensor].logical_name(run.part)];
        // Cuts fill their own elements; of what all ranks hold, each has a partial sum.
        for (int64_t i = 0; i < run.count; ++i) whole[run.first + i] += values[run.flat + i];
      }
    }
  }
  return outcome;
}

void ExpectClose(const Outcome& found, const Outcome& one) {
  for (const double loss : found.losses) EXPECT_NEAR(loss, one.losses[0], 1e-5 * loss);
  ASSERT_EQ(found.whole.size(), one.whole.size());
  for (const auto& [name, expected] : one.whole) {
    const auto& gradient = found.whole.at(name);
    ASSERT_EQ(gradient.size(), expected.size()) << name;
    double error = 0, norm = 0;
    for (const auto& [element, value] : expected) {
      error += std::pow(static_cast<double>(gradient.at(element)) - value, 2);
      norm += std::pow(static_cast<double>(value), 2);
    }
    EXPECT_GT(norm, 0) << name;
    // A key bias's is 0 but for rounding.
    const double floor = name.ends_with("bias") ? 1e-6 : 0;
    EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm) + floor) << name;
  }
}

TEST(TensorGroupTest, LossesAndGradients_AreThoseOfOneRank) {
  const Outcome one = Train(Options(1, 1));
  for (const int64_t degree : {2, 4}) {
    for (const int64_t chunks : {1, 2, 4}) {
      SCOPED_TRACE(absl::StrCat("degree ", degree, ", chunks ", chunks));
      model::EmitOptions options = Options(degree, chunks);
      options.head_chunk_rows = chunks == 2 ? 16 : 0;  // smaller than a chunk of the group's rows
      ExpectClose(Train(options), one);
    }
  }
}

TEST(TensorGroupTest, SeveralDocumentsInASequence_GiveOneRanksLossesAndGradients) {
  model::EmitOptions options = Options(1, 1);
  const Outcome whole = Train(options);
  options.documents = true;
  const Outcome one = Train(options);
  EXPECT_NE(one.losses, whole.losses);
  for (const int64_t degree : {2, 4}) {
    for (const int64_t chunks : {1, 4}) {
      for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kFull}) {
        SCOPED_TRACE(absl::StrCat("degree ", degree, ", chunks ", chunks));
        options = Options(degree, chunks);
        options.documents = true;
        options.recompute.mode = mode;
        options.split_backward = chunks == 4;
        ExpectClose(Train(options), one);
      }
    }
  }
}

TEST(TensorGroupTest, FewerKeyAndValueHeadsThanRanks_GiveOneRanksLossesAndGradients) {
  for (const int64_t kv_heads : {1, 2}) {
    const Outcome one = Train(Options(1, 1), Spec(kv_heads));
    for (const int64_t degree : {2, 4}) {
      for (const bool split : {false, true}) {
        SCOPED_TRACE(absl::StrCat(kv_heads, " heads, degree ", degree, ", split ", split));
        model::EmitOptions options = Options(degree, 4);
        options.split_backward = split;
        ExpectClose(Train(options, Spec(kv_heads)), one);
      }
    }
  }
}

model::ModelSpec FamilySpec(model::Family family, int64_t kv_heads) {
  const bool gpt2 = family == model::Family::kGpt2;
  model::ModelSpec spec = model::DefaultsOf(family);
  spec.layers = 3;
  spec.heads = gpt2 ? 4 : 8;
  spec.kv_heads = gpt2 ? 4 : kv_heads;
  spec.head_size = 10;
  spec.hidden = gpt2 ? 40 : 36;
  spec.ffn = 52;
  spec.vocab = 261;
  spec.context = 37;
  spec.initial_std = 0.2;
  if (spec.sliding_window > 0 || family == model::Family::kMistral) spec.sliding_window = 7;
  spec.full_attention = model::UsualFullAttention(family, spec.layers);
  return spec;
}

// With windows, norms of heads, biases, learned positions, softcaps; odd sizes. Documents where key
// heads are shared by ranks.
TEST(TensorGroupTest, EveryFamily_GivesOneRanksLossesAndGradients) {
  for (const model::Family family : model::AllFamilies()) {
    for (const bool shared : {false, true}) {
      SCOPED_TRACE(absl::StrCat("family ", static_cast<int>(family), ", shared heads ", shared));
      const model::ModelSpec spec = FamilySpec(family, shared ? 1 : 4);
      model::EmitOptions options = Options(1, 1);
      options.documents = shared;
      const Outcome one = Train(options, spec);
      options = Options(shared ? 4 : 2, shared ? 1 : 4);
      options.documents = options.split_backward = shared;
      ExpectClose(Train(options, spec), one);
    }
  }
}

TEST(TensorGroupTest, RecomputeAndSplits_ChangeNoBit) {
  const Outcome expected = Train(Options(2, 4));
  for (const bool split : {false, true}) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kFull}) {
      model::EmitOptions options = Options(2, 4);
      options.split_backward = split;
      options.recompute.mode = mode;
      const Outcome found = Train(options);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.ranks, expected.ranks) << static_cast<int>(mode) << split;
    }
  }
}

}  // namespace
}  // namespace strata::parity
