#include "tests/parity/interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "kernels/number_types.h"
#include "model/rope_table.h"

namespace strata::parity {
namespace {

using program::Formal;
using program::Op;
using program::Role;
using program::Scalar;
using program::Template;

constexpr int kNan = 0xFF;
constexpr int64_t kMostLogits = int64_t{1} << 22;  // bytes

}  // namespace

Buffer::Buffer(int64_t bytes, int fill)
    : data_(static_cast<std::byte*>(std::aligned_alloc(
          program::kSlotAlignment, common::RoundUp(bytes, program::kSlotAlignment)))),
      bytes_(bytes) {
  STRATA_CHECK(data_ != nullptr);
  std::memset(data_.get(), fill, bytes);
}

Interpreter::Interpreter(program::LayerGraph graph, const model::ModelSpec& spec, int threads)
    : graph_(std::move(graph)), pool_(threads), plans_(threads) {
  for (const program::ParameterSet& set : graph_.sets) {
    parameters_.emplace_back(set.bytes(), 0);
    for (auto* state : {&gradients_, &first_moments_, &second_moments_}) {
      state->emplace_back(set.gradient_bytes(), 0);
    }
  }
  for (const program::Constant& constant : graph_.constants) {
    const Buffer& made = constants_.emplace_back(constant.bytes, kNan);
    FillConstant(spec, constant.name, {{.count = constant.bytes / 4 / spec.rotated()}},
                 graph_.sequence, {made.data(), static_cast<size_t>(made.bytes())});
  }
  for (const program::Layer& layer : graph_.layers) caches_.emplace_back(layer.cache_bytes, kNan);
  tokens_ = Buffer(graph_.tokens() * 4, 0);
  targets_ = Buffer(graph_.tokens() * 4, 0);
  positions_ = Buffer(graph_.tokens() * 4, kNan);
  loss_ = Buffer(8, 0);
  scalars_ = Buffer(program::kScalarBytes, kNan);
  gradient_stream_ = Buffer(graph_.boundary_bytes, kNan);
  logits_ = Buffer(kMostLogits, kNan);
}

void Interpreter::SetParameters(int set, absl::Span<const float> values) {
  if (graph_.sets[set].type == program::DType::kF32) {
    std::copy(values.begin(), values.end(), parameters(set).begin());
    return;
  }
  STRATA_CHECK(graph_.sets[set].type == program::DType::kBF16);
  auto* const to = reinterpret_cast<kernels::BFloat16*>(parameters_[set].data());
  for (size_t i = 0; i < values.size(); ++i)
    to[i] = kernels::FromFloat<kernels::BFloat16>(values[i]);
}

void Interpreter::ZeroGradients() {
  for (const Buffer& gradient : gradients_) std::memset(gradient.data(), 0, gradient.bytes());
}

absl::Status Interpreter::Call(const Template& called, const Bind& bind) {
  std::vector<std::byte*> slots;
  std::vector<Buffer> locals;
  for (const Formal& formal : called.formals) slots.push_back(bind(formal));
  for (const program::Slot& local : called.locals) {
    // Workspaces keep nothing from one op to the next, so all share one.
    const bool shared = local.klass == program::SlotClass::kWorkspace;
    if (shared && workspace_.bytes() < local.bytes) workspace_ = Buffer(local.bytes, kNan);
    if (!shared) locals.emplace_back(local.bytes, kNan);
    slots.push_back(shared ? nullptr : locals.back().data());
  }
  for (size_t i = 0; i < called.locals.size(); ++i) {
    std::byte*& slot = slots[called.formals.size() + i];
    if (slot == nullptr) slot = workspace_.data();
  }
  const worker::OpEnvironment environment{.context = {&pool_}, .plans = &plans_};
  for (const Op& op : called.ops) {
    std::vector<worker::BoundOperand> operands;
    for (const program::Operand& operand : op.operands) {
      std::byte* slot = slots[operand.slot];
      operands.push_back({.data = slot + operand.offset,
                          .bytes = operand.bytes,
                          .slot = slot,
                          .offset = operand.offset});
    }
    const absl::StatusOr<worker::BoundOp> bound = worker::BindOp(op, operands, environment);
    if (!bound.ok()) {
      return absl::InternalError(
          absl::StrCat(called.name, ", ", Name(op.kind), ": ", bound.status().message()));
    }
    RETURN_IF_ERROR((*bound)());
  }
  return absl::OkStatus();
}

std::byte* Interpreter::Place(const Key& key, int64_t bytes) {
  Buffer& buffer = places_[key];
  if (buffer.bytes() != bytes) buffer = Buffer(bytes, kNan);
  return buffer.data();
}

// Activations are kept by the layer that writes them, their gradients (when not in place) by the
// layer that writes the activation too.
std::byte* Interpreter::BindFormal(size_t layer, const Formal& formal) {
  switch (formal.role) {
    case Role::kInput:
      return Place({layer - 1, Role::kOutput, 0}, formal.bytes);
    case Role::kOutputGradient:
      return Place({layer, Role::kOutputGradient, 0}, formal.bytes);
    case Role::kInputGradient:
      return Place({layer - 1, Role::kOutputGradient, 0}, formal.bytes);
    case Role::kGradientStream:
      // Split: the head's gradient stream is the last block's output gradient.
      return split_ ? Place({layer - 1, Role::kOutputGradient, 0}, formal.bytes)
                    : gradient_stream_.data();
    case Role::kParameters:
      return parameters_[graph_.layers[layer].sets[formal.index]].data();
    case Role::kGradients:
      return gradients_[graph_.layers[layer].sets[formal.index]].data();
    case Role::kTokens:
      return tokens_.data();
    case Role::kTargets:
      return targets_.data();
    case Role::kPositions:
      return positions_.data();
    case Role::kLoss:
      return loss_.data();
    case Role::kScalars:
      return scalars_.data();
    case Role::kConstants:
      return constants_[formal.index].data();
    case Role::kCache:
      return caches_[layer].data();
    case Role::kLogits:
      STRATA_CHECK(formal.bytes <= logits_.bytes());
      return logits_.data();
    default:
      return Place({layer, formal.role, formal.index}, formal.bytes);
  }
}

absl::Status Interpreter::CallLayer(size_t layer, int index) {
  return Call(graph_.templates[index],
              [&](const Formal& formal) { return BindFormal(layer, formal); });
}

void Interpreter::LoadTokens(absl::Span<const int32_t> tokens, absl::Span<const int32_t> targets) {
  STRATA_CHECK(static_cast<int64_t>(tokens.size()) * 4 <= tokens_.bytes());
  std::memcpy(tokens_.data(), tokens.data(), tokens.size() * 4);
  if (!targets.empty()) std::memcpy(targets_.data(), targets.data(), targets.size() * 4);
  loss() = 0;
  places_.clear();
}

absl::Status Interpreter::Backward(bool split) {
  split_ = split;
  const size_t layers = graph_.layers.size();
  RETURN_IF_ERROR(CallLayer(layers - 1, graph_.layers[layers - 1].templates.backward));
  for (size_t layer = layers - 1; layer-- > 0;) {
    const program::LayerTemplates& templates = graph_.layers[layer].templates;
    const int index = split ? templates.backward_input : templates.backward;
    if (index >= 0) RETURN_IF_ERROR(CallLayer(layer, index));
  }
  for (size_t layer = layers - 1; split && layer-- > 0;) {
    const int index = graph_.layers[layer].templates.backward_weight;
    if (index >= 0) RETURN_IF_ERROR(CallLayer(layer, index));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Interpreter::TrainPass(absl::Span<const int32_t> tokens,
                                              absl::Span<const int32_t> targets,
                                              double inverse_tokens, bool split,
                                              absl::Span<const int32_t> positions) {
  LoadTokens(tokens, targets);
  if (!positions.empty()) std::memcpy(positions_.data(), positions.data(), positions.size() * 4);
  scalar(Scalar::kInverseTokens) = inverse_tokens;
  for (size_t layer = 0; layer + 1 < graph_.layers.size(); ++layer) {
    RETURN_IF_ERROR(CallLayer(layer, graph_.layers[layer].templates.forward));
  }
  RETURN_IF_ERROR(Backward(split));
  return loss();
}

absl::StatusOr<double> Interpreter::EvaluatePass(absl::Span<const int32_t> tokens,
                                                 absl::Span<const int32_t> targets) {
  LoadTokens(tokens, targets);
  for (size_t layer = 0; layer < graph_.layers.size(); ++layer) {
    RETURN_IF_ERROR(CallLayer(layer, graph_.layers[layer].templates.evaluate));
  }
  return loss();
}

absl::Status Interpreter::UpdateSet(int set, const model::AdamWSpec& spec) {
  const program::ParameterSet& updated = graph_.sets[set];
  return Call(
      model::EmitAdamW(updated, spec, {.count = updated.elements, .stride = updated.elements}),
      [&](const Formal& formal) {
        switch (formal.role) {
          case Role::kParameters:
            return parameters_[set].data();
          case Role::kGradients:
            return gradients_[set].data();
          case Role::kState:
            return (formal.index % 2 == 0 ? first_moments_ : second_moments_)[set].data();
          default:
            return scalars_.data();
        }
      });
}

absl::StatusOr<double> Interpreter::Update(const model::AdamWSpec& spec, double learning_rate,
                                           double clip) {
  double squares = 0;
  for (const Buffer& gradient : gradients_) {
    for (const float value : gradient.floats()) squares += static_cast<double>(value) * value;
  }
  const double norm = std::sqrt(squares);
  scalar(Scalar::kLearningRate) = learning_rate;
  scalar(Scalar::kClipFactor) = clip == 0 ? 1 : std::min(1.0, clip / (norm + 1e-6));
  if (std::isnan(scalar(Scalar::kApplied))) scalar(Scalar::kApplied) = 0;
  for (size_t set = 0; set < graph_.sets.size(); ++set) {
    if (!graph_.sets[set].trainable) continue;
    RETURN_IF_ERROR(UpdateSet(static_cast<int>(set), spec));
  }
  scalar(Scalar::kApplied) += 1;
  return norm;
}

void Interpreter::ClearCaches() {
  for (const Buffer& cache : caches_) std::memset(cache.data(), kNan, cache.bytes());
  scalar(Scalar::kPosition) = 0;
}

absl::StatusOr<std::vector<float>> Interpreter::Append(absl::Span<const int32_t> tokens,
                                                       bool prefill) {
  std::memset(tokens_.data(), 0, tokens_.bytes());
  LoadTokens(tokens, {});
  scalar(Scalar::kValidTokens) = static_cast<double>(tokens.size());
  for (size_t layer = 0; layer < graph_.layers.size(); ++layer) {
    const program::LayerTemplates& templates = graph_.layers[layer].templates;
    RETURN_IF_ERROR(CallLayer(layer, prefill ? templates.prefill : templates.decode));
  }
  scalar(Scalar::kPosition) += static_cast<double>(tokens.size());
  const program::DType type = graph_.sets.front().type;
  const int64_t count =
      graph_.logits_bytes / program::SizeOf(type) * static_cast<int64_t>(tokens.size());
  if (type == program::DType::kF32) {
    const float* logits = logits_.floats().data();
    return std::vector<float>(logits, logits + count);
  }
  STRATA_CHECK(type == program::DType::kBF16);
  const auto* logits = reinterpret_cast<const kernels::BFloat16*>(logits_.data());
  std::vector<float> wide;
  for (int64_t i = 0; i < count; ++i) wide.push_back(kernels::ToFloat(logits[i]));
  return wide;
}

}  // namespace strata::parity
