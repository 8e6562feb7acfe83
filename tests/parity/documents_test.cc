// Several documents in a sequence give the losses and gradients that each gives alone: in f64 node
// by node, and by the templates and kernels.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/initialize.h"
#include "tests/parity/interpreter.h"
#include "tests/parity/model_reference.h"

namespace strata::parity {
namespace {

using Mode = model::RecomputePlan::Mode;
using testing::GradientsOf;
using testing::ModelGradients;
using testing::NamedTensors;

constexpr int64_t kBatch = 2, kSequence = 24;

model::ModelSpec Spec() {
  model::ModelSpec spec;
  spec.layers = 2;
  spec.hidden = 20;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_size = 6;
  spec.ffn = 28;
  spec.vocab = 50;
  spec.context = 32;
  spec.tied_embeddings = true;
  spec.initial_std = 0.2;
  return spec;
}

struct Text {
  std::vector<int32_t> tokens, targets, positions;
};

// Of documents of random tokens, of which some are not trained on.
struct Documents {
  std::vector<std::vector<int64_t>> lengths;  // by sequence; each sums up to kSequence

  Text All() const {
    Text text;
    for (size_t b = 0; b < lengths.size(); ++b) {
      for (size_t d = 0; d < lengths[b].size(); ++d) Append(b, d, text);
    }
    return text;
  }
  void Append(size_t b, size_t d, Text& text) const {
    for (int64_t i = 0; i < lengths[b][d]; ++i) {
      const uint64_t bits = common::MixBits(100 * b + d, static_cast<uint64_t>(i));
      text.tokens.push_back(static_cast<int32_t>(bits % 50));
      text.targets.push_back(bits % 7 == 0 ? -1 : static_cast<int32_t>((bits >> 20) % 50));
      text.positions.push_back(static_cast<int32_t>(i));
    }
  }
};

const Documents kDocuments{{{1, 7, 1, 2, 13}, {24}}};

// Each document in a sequence of its own; sums over their tokens instead of means.
ModelGradients EachAlone(const Documents& documents, const NamedTensors& weights) {
  ModelGradients sum;
  for (size_t b = 0; b < documents.lengths.size(); ++b) {
    for (size_t d = 0; d < documents.lengths[b].size(); ++d) {
      Text text;
      documents.Append(b, d, text);
      const auto length = static_cast<double>(text.tokens.size());
      const ModelGradients alone =
          GradientsOf(Spec(), weights, documents.lengths[b][d], text.tokens, text.targets);
      sum.loss += alone.loss * length;
      for (const auto& [name, gradient] : alone.gradients) {
        std::vector<double>& to = sum.gradients[name];
        to.resize(gradient.size());
        for (size_t i = 0; i < gradient.size(); ++i) to[i] += gradient[i] * length;
      }
    }
  }
  return sum;
}

template <typename Found>
void ExpectClose(const Found& found, const std::vector<double>& expected, double factor,
                 double tolerance, const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double off = 0, squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(factor * static_cast<double>(found[i]) - expected[i], 2);
    squares += expected[i] * expected[i];
  }
  EXPECT_GT(squares, 0) << name;
  EXPECT_LE(std::sqrt(off), tolerance * std::sqrt(squares)) << name;
}

TEST(DocumentsTest, InOneSequenceInF64_GiveWhatEachGivesAlone) {
  const NamedTensors weights = testing::InitialWeights(Spec(), 3);
  const ModelGradients alone = EachAlone(kDocuments, weights);
  const Text text = kDocuments.All();
  const ModelGradients packed =
      GradientsOf(Spec(), weights, kSequence, text.tokens, text.targets, text.positions);
  const double rows = kBatch * kSequence;
  EXPECT_NEAR(packed.loss * rows, alone.loss, 1e-11 * alone.loss);
  for (const auto& [name, expected] : alone.gradients) {
    ExpectClose(packed.gradients.at(name), expected, rows, 1e-11, name);
  }
}

TEST(DocumentsTest, InOneSequenceByKernels_GiveWhatEachGivesAlone) {
  const ModelGradients alone = EachAlone(kDocuments, testing::InitialWeights(Spec(), 3));
  const Text text = kDocuments.All();
  for (const bool split : {false, true}) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kFull}) {
      SCOPED_TRACE(absl::StrCat("split ", split, " recompute ", static_cast<int>(mode)));
      model::EmitOptions options;
      options.micro_batch = kBatch;
      options.sequence = kSequence;
      options.prefill_chunk = 0;
      options.documents = true;
      options.split_backward = split;
      options.recompute.mode = mode;
      auto graph = model::EmitFamily(Spec(), options);
      ASSERT_TRUE(graph.ok()) << graph.status();
      Interpreter interpreter(*std::move(graph), Spec(), 1);
      const std::vector<program::ParameterSet>& sets = interpreter.graph().sets;
      for (size_t s = 0; s < sets.size(); ++s) {
        model::FillInitial(sets[s], 3, 0, interpreter.parameters(static_cast<int>(s)));
      }
      interpreter.ZeroGradients();
      const auto loss = interpreter.TrainPass(text.tokens, text.targets, 1, split, text.positions);
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_NEAR(*loss, alone.loss, 1e-6 * alone.loss);
      NamedTensors found;
      for (size_t s = 0; s < sets.size(); ++s) {
        const absl::Span<const float> values = interpreter.gradients(static_cast<int>(s));
        for (const program::ElementRun& run : ElementRuns(sets[s], 0, 0, sets[s].elements)) {
          const std::string& name = sets[s].tensors[run.tensor].logical_name(run.part);
          found[name].assign(&values[run.flat], &values[run.flat] + run.count);
        }
      }
      for (const auto& [name, expected] : alone.gradients) {
        ExpectClose(found.at(name), expected, 1, 1e-5, name);
      }
      // Validation is the same forward.
      const auto evaluated = interpreter.EvaluatePass(text.tokens, text.targets);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      EXPECT_NEAR(*evaluated, alone.loss, 1e-6 * alone.loss);
    }
  }
}

// What stands before a document in its sequence changes nothing in it.
TEST(DocumentsTest, OtherNeighbours_LeaveADocumentsGradientAsItIs) {
  const NamedTensors weights = testing::InitialWeights(Spec(), 3);
  Text text = kDocuments.All(), other = text;
  for (size_t i = 0; i < 11; ++i) {  // all of the first sequence's but the last
    other.tokens[i] = (other.tokens[i] + 1) % 50;
    text.targets[i] = other.targets[i] = -1;
  }
  const ModelGradients one =
      GradientsOf(Spec(), weights, kSequence, text.tokens, text.targets, text.positions);
  const ModelGradients two =
      GradientsOf(Spec(), weights, kSequence, other.tokens, other.targets, other.positions);
  EXPECT_EQ(one.loss, two.loss);
  for (const auto& [name, gradient] : one.gradients) {
    ExpectClose(two.gradients.at(name), gradient, 1, 1e-12, name);
  }
}

}  // namespace
}  // namespace strata::parity
