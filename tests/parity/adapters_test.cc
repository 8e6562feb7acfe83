// Adapters against the model with their products added to its weights: losses, and gradients by the
// chain rule, on one rank and on a tensor group.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/int8.h"
#include "kernels/nf4.h"
#include "model/adapter_names.h"
#include "model/families/families.h"
#include "model/family_defaults.h"
#include "model/initialize.h"
#include "tests/parity/tensor_group.h"

namespace strata::parity {
namespace {

using program::ElementRun;
using program::ParameterSet;
using Mode = model::RecomputePlan::Mode;

constexpr int64_t kBatch = 2;
constexpr int64_t kSequence = 32;
constexpr int64_t kRank = 3;
constexpr double kScale = 2.0 / 3;

// Elements of a whole tensor, by its name and an element's place.
using Tensors = std::map<std::string, std::map<int64_t, float>>;

model::ModelSpec Spec(int64_t kv_heads) {
  model::ModelSpec spec;
  spec.layers = 2;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = kv_heads;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 40;
  spec.initial_std = 0.1;
  return spec;
}

model::EmitOptions Options(int64_t degree, std::vector<std::string> targets) {
  model::EmitOptions options;
  options.micro_batch = kBatch;
  options.sequence = kSequence;
  options.prefill_chunk = 0;
  options.tensor_degree = degree;
  options.tensor_chunks = degree == 1 ? 1 : 2;
  if (!targets.empty()) options.lora = {kRank, 2, std::move(targets), {}};
  return options;
}

struct Outcome {
  std::vector<double> losses;
  Tensors values, gradients;
  std::vector<std::vector<float>> ranks;
};

// As trained ones are: B is not zero.
std::vector<ParameterSet> WithValuesInB(std::vector<ParameterSet> sets) {
  for (ParameterSet& set : sets) {
    for (program::TensorSpec& tensor : set.tensors) {
      if (!absl::StrContains(tensor.name, "lora_B")) continue;
      tensor.initializer = {program::Initializer::Kind::kNormal, 0.1};
    }
  }
  return sets;
}

// A tensor's values become NF4 in the set's bytes, and then what those stand for.
void QuantiseNf4(const ParameterSet& set, const program::TensorSpec& tensor, std::byte* bytes,
                 float* values) {
  device::ThreadPool pool(1);
  for (int64_t i = 0; i < tensor.elements(); i += program::kNf4Unit) {
    std::byte* const unit = bytes + program::BytesOf(set.type, tensor.offset + i);
    const int64_t count = std::min(program::kNf4Unit, tensor.elements() - i);
    if (set.type == program::DType::kNf4) {
      kernels::QuantiseNf4Unit(values + i, count, 0.2F, unit);
      kernels::DequantiseNf4({&pool}, unit, count, values + i);
    } else {
      kernels::QuantiseNf4F32Unit(values + i, count, unit);
      kernels::DequantiseNf4F32({&pool}, unit, count, values + i);
    }
  }
}

// The same in 8 bits, each rank's row by itself.
void QuantiseInt8(const program::TensorSpec& tensor, const program::TensorSpec& row_scales,
                  std::byte* bytes, float* values) {
  device::ThreadPool pool(1);
  auto* const codes = reinterpret_cast<int8_t*>(bytes + tensor.offset);
  auto* const scales = reinterpret_cast<float*>(bytes + row_scales.offset);
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * columns;
    scales[row] = kernels::Int8Scale(values + at, columns);
    kernels::QuantiseInt8(values + at, columns, scales[row], codes + at);
  }
  kernels::DequantiseInt8({&pool}, codes, scales, rows, columns, values);
}

// What a set's parameters begin as, quantised where the set is; the numbers that kernels read are
// returned.
std::vector<float> Fill(const ParameterSet& set, absl::Span<float> parameters, int rank) {
  if (!program::IsQuantised(set.type)) {
    model::FillInitial(set, 7, 0, parameters, rank);
    return {parameters.begin(), parameters.end()};
  }
  std::vector<float> values(set.elements);
  model::FillInitial(set, 7, 0, absl::MakeSpan(values), rank);
  auto* const bytes = reinterpret_cast<std::byte*>(parameters.data());
  for (size_t t = 0; t < set.tensors.size(); ++t) {
    float* const own = &values[set.tensors[t].offset];
    if (program::IsNf4(set.type)) {
      QuantiseNf4(set, set.tensors[t], bytes, own);
    } else if (!program::IsRowScales(set.tensors[t].name)) {
      QuantiseInt8(set.tensors[t], set.tensors[t + 1], bytes, own);
    }
  }
  return values;
}

// `given`: elements of tensors that begin otherwise.
Outcome Train(const model::EmitOptions& options, const model::ModelSpec& spec = Spec(4),
              const Tensors& given = {}) {
  Outcome outcome;
  auto graph = model::EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return outcome;
  const int degree = static_cast<int>(options.tensor_degree);
  TensorGroup group(*std::move(graph), spec, degree);
  const std::vector<ParameterSet> sets = WithValuesInB(group.graph().sets);
  const auto for_runs = [&](const auto& visit) {
    for (int rank = 0; rank < degree; ++rank) {
      for (size_t s = 0; s < sets.size(); ++s) {
        for (const ElementRun& run : ElementRuns(sets[s], rank, 0, sets[s].elements)) {
          const std::string& name = sets[s].tensors[run.tensor].logical_name(run.part);
          if (!program::IsRowScales(name)) visit(rank, s, run, name);
        }
      }
    }
  };
  std::vector<std::vector<std::vector<float>>> numbers(degree);  // by rank and set
  for (int rank = 0; rank < degree; ++rank) {
    for (size_t s = 0; s < sets.size(); ++s) {
      numbers[rank].push_back(Fill(sets[s], group.parameters(rank, static_cast<int>(s)), rank));
    }
  }
  for_runs([&](int rank, size_t s, const ElementRun& run, const std::string& name) {
    const absl::Span<float> values = group.parameters(rank, static_cast<int>(s));
    const auto found = given.find(name);
    for (int64_t i = 0; i < run.count; ++i) {
      float& value = numbers[rank][s][run.flat + i];
      if (found != given.end()) values[run.flat + i] = value = found->second.at(run.first + i);
      outcome.values[name][run.first + i] = value;
    }
  });
  std::vector<int32_t> tokens(kBatch * kSequence), targets(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(common::MixBits(i, 1) % 264);
    targets[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(common::MixBits(i, 2) % 264);
  }
  const auto losses = group.TrainPass(tokens, targets, 1.0 / 55, options.split_backward);
  EXPECT_TRUE(losses.ok()) << losses.status();
  if (!losses.ok()) return outcome;
  outcome.losses = *losses;
  for_runs([&](int rank, size_t s, const ElementRun& run, const std::string& name) {
    if (!sets[s].trainable) return;
    const absl::Span<const float> values = group.gradients(rank, static_cast<int>(s));
    for (int64_t i = 0; i < run.count; ++i) {
      outcome.gradients[name][run.first + i] += values[run.flat + i];
    }
  });
  for (int rank = 0; rank < degree; ++rank) {
    for (size_t s = 0; s < sets.size(); ++s) {
      const absl::Span<const float> values = group.gradients(rank, static_cast<int>(s));
      outcome.ranks.emplace_back(values.begin(), values.end());
    }
  }
  return outcome;
}

void ExpectClose(const std::map<int64_t, float>& found, const std::map<int64_t, float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double error = 0, norm = 0;
  for (const auto& [element, value] : expected) {
    error += std::pow(static_cast<double>(found.at(element)) - value, 2);
    norm += std::pow(static_cast<double>(value), 2);
  }
  EXPECT_GT(norm, 0) << what;
  EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm)) << what;
}

void ExpectClose(const Outcome& found, const Outcome& one) {
  for (const double loss : found.losses) EXPECT_NEAR(loss, one.losses[0], 1e-5 * loss);
  ASSERT_EQ(found.gradients.size(), one.gradients.size());
  for (const auto& [name, expected] : one.gradients) {
    ExpectClose(found.gradients.at(name), expected, name);
  }
}

// The adapter's side ("A", "B") that stands beside a weight; empty where there is none.
const std::map<int64_t, float>* Side(const Tensors& tensors, const std::string& weight,
                                     const char* side) {
  const model::AdapterNames names = model::AdapterBeside(weight);
  const auto found = tensors.find(*side == 'A' ? names.a : names.b);
  return found == tensors.end() ? nullptr : &found->second;
}

// Every weight, with scale · B · A added where there are.
Tensors Merged(const Outcome& adapted) {
  Tensors merged;
  for (const auto& [name, weight] : adapted.values) {
    const auto* a = Side(adapted.values, name, "A");
    const auto* b = Side(adapted.values, name, "B");
    if (absl::StrContains(name, "lora_")) continue;
    merged[name] = weight;
    if (a == nullptr) continue;
    const int64_t in = static_cast<int64_t>(a->size()) / kRank;
    for (const auto& [element, value] : weight) {
      double sum = 0;
      for (int64_t k = 0; k < kRank; ++k) {
        sum += kScale * b->at(element / in * kRank + k) * a->at(k * in + element % in);
      }
      merged[name][element] += static_cast<float>(sum);
    }
  }
  return merged;
}

// dB = scale · dW · Aᵀ, dA = scale · Bᵀ · dW.
Tensors ByTheChainRule(const Outcome& adapted, const Tensors& weight_gradients) {
  Tensors gradients;
  for (const auto& [name, dw] : weight_gradients) {
    const auto* a = Side(adapted.values, name, "A");
    const auto* b = Side(adapted.values, name, "B");
    if (a == nullptr) continue;
    const model::AdapterNames names = model::AdapterBeside(name);
    const int64_t in = static_cast<int64_t>(a->size()) / kRank;
    for (const auto& [element, value] : dw) {
      const int64_t row = element / in, column = element % in;
      for (int64_t k = 0; k < kRank; ++k) {
        gradients[names.b][row * kRank + k] +=
            static_cast<float>(kScale * value * a->at(k * in + column));
        gradients[names.a][k * in + column] +=
            static_cast<float>(kScale * value * b->at(row * kRank + k));
      }
    }
  }
  return gradients;
}

const std::vector<std::vector<std::string>> kTargets = {
    {"all-linear"},
    {"q_proj", "v_proj"},
    {"layers.1.self_attn.k_proj", "down_proj"},
    {"o_proj"},
    {"layers.0.mlp.gate_proj", "layers.1.mlp.up_proj"}};

TEST(AdaptersTest, LossAndGradients_AreThoseOfTheModelWithTheProductsAdded) {
  for (const std::vector<std::string>& targets : kTargets) {
    SCOPED_TRACE(targets[0]);
    const Outcome adapted = Train(Options(1, targets));
    const Outcome merged = Train(Options(1, {}), Spec(4), Merged(adapted));
    EXPECT_NEAR(adapted.losses[0], merged.losses[0], 1e-5 * merged.losses[0]);
    const Tensors expected = ByTheChainRule(adapted, merged.gradients);
    ASSERT_EQ(adapted.gradients.size(), expected.size());
    for (const auto& [name, gradient] : expected) {
      ExpectClose(adapted.gradients.at(name), gradient, name);
    }
  }
}

model::ModelSpec SpecOf(model::Family family) {
  model::ModelSpec spec = Spec(4);
  const model::ModelSpec usual = model::DefaultsOf(family);
  spec.family = family;
  spec.tied_embeddings = usual.tied_embeddings;
  spec.activation = usual.activation;
  spec.attention_bias = usual.attention_bias;
  spec.output_bias = usual.output_bias;
  spec.feed_forward_bias = usual.feed_forward_bias;
  if (family == model::Family::kGpt2) spec.kv_heads = spec.heads;
  return spec;
}

TEST(AdaptersTest, OtherFamilies_AdaptTheirOwnLinearLayers) {
  for (const model::Family family : {model::Family::kGpt2, model::Family::kQwen2,
                                     model::Family::kQwen3, model::Family::kGemma3}) {
    SCOPED_TRACE(static_cast<int>(family));
    const model::ModelSpec spec = SpecOf(family);
    const Outcome adapted = Train(Options(1, {"all-linear"}), spec);
    const Outcome merged = Train(Options(1, {}), spec, Merged(adapted));
    EXPECT_NEAR(adapted.losses[0], merged.losses[0], 1e-5 * merged.losses[0]);
    const Tensors expected = ByTheChainRule(adapted, merged.gradients);
    std::set<std::string> names;
    for (const auto& [name, gradient] : expected) {
      const std::string module = name.substr(0, name.find(".lora_"));
      names.insert(module.substr(module.rfind('.') + 1));
      ExpectClose(adapted.gradients.at(name), gradient, name);
    }
    const std::vector<std::string> known = model::AdapterTargets(family);
    EXPECT_EQ(names, std::set<std::string>(known.begin(), known.end()));
    EXPECT_EQ(adapted.gradients.size(), expected.size());
  }
}

TEST(AdaptersTest, QuantisedWeights_GiveTheBitsOfWhatTheyStandFor) {
  for (const auto type : {program::DType::kNf4, program::DType::kNf4F32, program::DType::kInt8}) {
    for (const int64_t degree : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(program::Name(type), ", degree ", degree));
      model::EmitOptions options = Options(degree, {"all-linear"});
      options.lora.quantised = type;
      const Outcome quantised = Train(options);
      options.lora.quantised.reset();
      const Outcome numbers = Train(options, Spec(4), quantised.values);
      EXPECT_EQ(quantised.losses, numbers.losses);
      EXPECT_EQ(quantised.gradients, numbers.gradients);
      EXPECT_NE(quantised.losses, Train(options).losses);
    }
  }
}

TEST(AdaptersTest, TensorGroups_GiveOneRanksLossesAndGradients) {
  for (const std::vector<std::string>& targets : kTargets) {
    for (const int64_t kv_heads : {4, 1}) {
      const Outcome one = Train(Options(1, targets), Spec(kv_heads));
      for (const int64_t degree : {2, 4}) {
        SCOPED_TRACE(absl::StrCat(targets[0], ", ", kv_heads, " heads, degree ", degree));
        model::EmitOptions options = Options(degree, targets);
        options.split_backward = degree == kv_heads;
        ExpectClose(Train(options, Spec(kv_heads)), one);
      }
    }
  }
}

TEST(AdaptersTest, PackedModulesOnMoreRanksThanKeyHeads_HaveOneA) {
  model::ModelSpec spec = SpecOf(model::Family::kPhi3);
  spec.kv_heads = 2;
  const Outcome one = Train(Options(1, {"all-linear"}), spec);
  for (const bool split : {false, true}) {
    model::EmitOptions options = Options(4, {"all-linear"});
    options.split_backward = split;
    ExpectClose(Train(options, spec), one);
  }
}

TEST(AdaptersTest, RecomputeAndSplits_ChangeNoBit) {
  for (const int64_t degree : {1, 2}) {
    const Outcome expected = Train(Options(degree, {"all-linear"}));
    for (const Mode mode : {Mode::kNone, Mode::kFull}) {
      for (const bool split : {false, true}) {
        model::EmitOptions options = Options(degree, {"all-linear"});
        options.split_backward = split;
        options.recompute.mode = mode;
        const Outcome found = Train(options);
        EXPECT_EQ(found.losses, expected.losses);
        EXPECT_EQ(found.ranks, expected.ranks) << degree << static_cast<int>(mode) << split;
      }
    }
  }
}

TEST(AdaptersTest, LayersBelowTheFirstAdapter_HaveNoBackward) {
  const auto graph = model::EmitFamily(Spec(4), Options(1, {"layers.1.mlp.down_proj"}));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->layers[0].templates.backward, -1);
  EXPECT_EQ(graph->layers[1].templates.backward, -1);
  EXPECT_GE(graph->layers[2].templates.backward, 0);
  // Down's input gradient goes nowhere: dB, dh, its scale, dA.
  const program::Template& backward = graph->templates[graph->layers[2].templates.backward];
  int products = 0;
  for (const program::Op& op : backward.ops) products += op.kind == program::OpKind::kMatMul;
  EXPECT_EQ(products, 3);
  for (const ParameterSet& set : graph->sets) {
    EXPECT_EQ(set.trainable, absl::StrContains(set.name, "adapters")) << set.name;
  }
}

TEST(AdaptersTest, UnknownTarget_IsRefusedWithWhatThereIs) {
  const auto graph = model::EmitFamily(Spec(4), Options(1, {"q_proj", "qkv"}));
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(graph.status().message(),
                                "called qkv — use all-linear, or some of q_proj, k_proj, v_proj, "
                                "o_proj, gate_proj, up_proj, down_proj"))
      << graph.status();
}

}  // namespace
}  // namespace strata::parity
