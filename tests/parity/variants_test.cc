// What may not change a bit of the gradients: which values a layer saves and which it makes again,
// a split backward, frozen weights elsewhere.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/initialize.h"
#include "model/saved_values.h"
#include "tests/parity/interpreter.h"

namespace strata::parity {
namespace {

using Mode = model::RecomputePlan::Mode;

constexpr int64_t kBatch = 2;
constexpr int64_t kSequence = 24;

model::ModelSpec Spec(bool tied) {
  model::ModelSpec spec;
  spec.layers = 3;
  spec.hidden = 48;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_size = 12;
  spec.ffn = 100;
  spec.vocab = 70;
  spec.context = 32;
  spec.tied_embeddings = tied;
  return spec;
}

model::EmitOptions Options() {
  model::EmitOptions options;
  options.micro_batch = kBatch;
  options.sequence = kSequence;
  options.prefill_chunk = 0;
  options.head_chunk_rows = 16;
  return options;
}

// The loss, and gradients by tensor name.
struct Outcome {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;

  bool operator==(const Outcome&) const = default;
};

Outcome Train(const model::ModelSpec& spec, const model::EmitOptions& options) {
  Outcome outcome;
  auto graph = model::EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return outcome;
  Interpreter interpreter(*std::move(graph), spec, 1);
  const std::vector<program::ParameterSet>& sets = interpreter.graph().sets;
  for (size_t s = 0; s < sets.size(); ++s) {
    model::FillInitial(sets[s], 7, 0, interpreter.parameters(static_cast<int>(s)));
  }
  std::vector<int32_t> tokens(kBatch * kSequence), targets(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(common::MixBits(i, 1) % 70);
    targets[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(common::MixBits(i, 2) % 70);
  }
  interpreter.ZeroGradients();
  const auto loss = interpreter.TrainPass(tokens, targets, 1.0 / 40, options.split_backward);
  EXPECT_TRUE(loss.ok()) << loss.status();
  outcome.loss = loss.ok() ? *loss : 0;
  for (size_t s = 0; s < sets.size(); ++s) {
    if (!sets[s].trainable) continue;
    const absl::Span<const float> values = interpreter.gradients(static_cast<int>(s));
    for (const program::ElementRun& run : ElementRuns(sets[s], 0, 0, sets[s].elements)) {
      const std::string& name = sets[s].tensors[run.tensor].logical_name(run.part);
      outcome.gradients[name].assign(&values[run.flat], &values[run.flat] + run.count);
    }
  }
  return outcome;
}

TEST(RecomputeTest, EveryMode_HasTheSameBits) {
  for (const bool tied : {false, true}) {
    const Outcome expected = Train(Spec(tied), Options());
    EXPECT_GT(expected.loss, 0);
    for (const bool split : {false, true}) {
      for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kFull}) {
        model::EmitOptions options = Options();
        options.split_backward = split;
        options.recompute.mode = mode;
        EXPECT_EQ(Train(Spec(tied), options), expected) << static_cast<int>(mode) << split;
        options.recompute.first_layer = 1;
        options.recompute.last_layer = 1;
        EXPECT_EQ(Train(Spec(tied), options), expected) << static_cast<int>(mode) << split;
      }
    }
  }
}

// Each value alone, all but each, and subsets that a generator draws.
TEST(RecomputeTest, EveryListOfNames_HasTheSameBits) {
  const Outcome expected = Train(Spec(false), Options());
  const std::vector<std::string> names = model::NamesOfSavableValues(model::Family::kLlama);
  const uint64_t all = (1u << names.size()) - 1;
  std::vector<uint64_t> subsets = {all};
  for (size_t i = 0; i < names.size(); ++i) {
    subsets.push_back(uint64_t{1} << i);
    subsets.push_back(all & ~(uint64_t{1} << i));
  }
  for (uint64_t i = 0; i < 40; ++i) subsets.push_back((common::MixBits(i, 11) & all) | 1);
  for (const uint64_t subset : subsets) {
    model::EmitOptions options = Options();
    for (size_t i = 0; i < names.size(); ++i) {
      if ((subset >> i & 1) != 0) options.recompute.save.push_back(names[i]);
    }
    options.split_backward = subset % 2 == 0;
    EXPECT_EQ(Train(Spec(false), options), expected) << subset;
    options.split_backward = !options.split_backward;
    EXPECT_EQ(Train(Spec(false), options), expected) << subset << " split the other way";
  }
}

TEST(FrozenTest, OtherGradients_KeepTheirBits) {
  const std::vector<std::vector<std::string>> choices = {
      {"model.embed_tokens.weight"},
      {"model.embed_tokens.weight", "model.layers.0.*"},
      {"*norm*"},
      {"*.mlp.*"},
      {"*.o_proj.weight", "model.layers.1.*", "lm_head.weight"},
      {"*_proj.weight", "model.embed_tokens.weight"},
      {"lm_head.weight", "model.norm.weight", "model.layers.2.*"}};
  const Outcome whole = Train(Spec(false), Options());
  for (const std::vector<std::string>& frozen : choices) {
    for (const Mode mode : {Mode::kNone, Mode::kFull}) {
      for (const bool split : {false, true}) {
        model::EmitOptions options = Options();
        options.split_backward = split;
        options.recompute.mode = mode;
        options.frozen = frozen;
        const Outcome found = Train(Spec(false), options);
        EXPECT_EQ(found.loss, whole.loss);
        EXPECT_LT(found.gradients.size(), whole.gradients.size());
        EXPECT_FALSE(found.gradients.empty());
        for (const auto& [name, gradient] : found.gradients) {
          EXPECT_EQ(gradient, whole.gradients.at(name)) << frozen[0] << ": " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::parity
