#include "tests/parity/tensor_group.h"

#include <cstring>
#include <utility>

#include "common/status_macros.h"
#include "model/rope_table.h"
#include "program/ir/scalars.h"

namespace strata::parity {
namespace {

using program::Formal;
using program::Op;
using program::OpKind;
using program::Role;

constexpr int kNan = 0xFF;

float* F32(std::byte* data) { return reinterpret_cast<float*>(data); }

}  // namespace

TensorGroup::TensorGroup(program::LayerGraph graph, const model::ModelSpec& spec, int degree)
    : graph_(std::move(graph)), pool_(1), plans_(1), ranks_(degree) {
  for (Rank& rank : ranks_) {
    for (const program::ParameterSet& set : graph_.sets) {
      rank.parameters.emplace_back(set.bytes(), 0);
      rank.gradients.emplace_back(set.gradient_bytes(), 0);
    }
    rank.loss = Buffer(8, 0);
    rank.stream = Buffer(graph_.boundary_bytes, kNan);
  }
  tokens_ = Buffer(graph_.tokens() * 4, 0);
  targets_ = Buffer(graph_.tokens() * 4, 0);
  positions_ = Buffer(graph_.tokens() * 4, kNan);
  scalars_ = Buffer(program::kScalarBytes, kNan);
  for (const program::Constant& constant : graph_.constants) {
    const Buffer& made = constants_.emplace_back(constant.bytes, kNan);
    FillConstant(spec, constant.name, {{.count = constant.bytes / 4 / spec.rotated()}},
                 graph_.sequence, {made.data(), static_cast<size_t>(made.bytes())});
  }
}

std::byte* TensorGroup::BindFormal(Rank& rank, size_t layer, const Formal& formal) {
  Key key{layer, formal.role, formal.index};
  switch (formal.role) {
    case Role::kParameters:
      return rank.parameters[graph_.layers[layer].sets[formal.index]].data();
    case Role::kGradients:
      return rank.gradients[graph_.layers[layer].sets[formal.index]].data();
    case Role::kTokens:
      return tokens_.data();
    case Role::kTargets:
      return targets_.data();
    case Role::kPositions:
      return positions_.data();
    case Role::kLoss:
      return rank.loss.data();
    case Role::kScalars:
      return scalars_.data();
    case Role::kConstants:
      return constants_[formal.index].data();
    case Role::kInput:
      key = {layer - 1, Role::kOutput, 0};
      break;
    case Role::kGradientStream:
      if (!split_) return rank.stream.data();
      key = {layer - 1, Role::kOutputGradient, 0};
      break;
    case Role::kInputGradient:
      key = {layer - 1, Role::kOutputGradient, 0};
      break;
    default:
      break;
  }
  Buffer& buffer = rank.places[key];
  if (buffer.bytes() != formal.bytes) buffer = Buffer(formal.bytes, kNan);
  return buffer.data();
}

// Sums in f64, so that ranks' order plays no part.
absl::Status TensorGroup::Collect(const Op& op) {
  const size_t degree = ranks_.size();
  const size_t part = op.communication.bytes;
  if (op.communication.op == program::CollectiveOp::kAllGather) {
    for (const Rank& to : ranks_) {
      for (size_t from = 0; from < degree; ++from) {
        std::memcpy(At(to, op, 1) + from * part, At(ranks_[from], op, 0), part);
      }
    }
    return absl::OkStatus();
  }
  if (op.communication.op != program::CollectiveOp::kReduceScatter) {
    return absl::UnimplementedError(Name(op.communication.op));
  }
  for (size_t to = 0; to < degree; ++to) {
    for (size_t i = 0; i < part / 4; ++i) {
      double sum = 0;
      for (const Rank& from : ranks_) sum += F32(At(from, op, 0) + to * part)[i];
      F32(At(ranks_[to], op, 1))[i] = static_cast<float>(sum);
    }
  }
  return absl::OkStatus();
}

absl::Status TensorGroup::Run(const Op& op) {
  if (op.kind == OpKind::kCollective) return Collect(op);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    const auto at = [&](size_t operand) { return At(rank, op, operand); };
    std::vector<worker::BoundOperand> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      operands.push_back({.data = at(i),
                          .bytes = op.operands[i].bytes,
                          .slot = rank.slots[op.operands[i].slot],
                          .offset = op.operands[i].offset});
    }
    const worker::OpEnvironment environment{
        .context = {&pool_},
        .plans = &plans_,
        .group_indices = {{program::Group::kTensor, static_cast<int>(r)}}};
    ASSIGN_OR_RETURN(const worker::BoundOp bound, worker::BindOp(op, operands, environment));
    RETURN_IF_ERROR(bound());
  }
  return absl::OkStatus();
}

absl::Status TensorGroup::CallLayer(size_t layer, int index) {
  if (index < 0) return absl::OkStatus();
  const program::Template& called = graph_.templates[index];
  for (Rank& rank : ranks_) {
    rank.slots.clear();
    rank.locals.clear();
    for (const Formal& formal : called.formals) {
      rank.slots.push_back(BindFormal(rank, layer, formal));
    }
    for (const program::Slot& local : called.locals) {
      rank.locals.emplace_back(local.bytes, kNan);
      rank.slots.push_back(rank.locals.back().data());
    }
  }
  for (const Op& op : called.ops) RETURN_IF_ERROR(Run(op));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> TensorGroup::TrainPass(absl::Span<const int32_t> tokens,
                                                           absl::Span<const int32_t> targets,
                                                           double inverse_tokens, bool split,
                                                           absl::Span<const int32_t> positions) {
  split_ = split;
  std::memcpy(tokens_.data(), tokens.data(), tokens.size() * 4);
  std::memcpy(targets_.data(), targets.data(), targets.size() * 4);
  if (!positions.empty()) std::memcpy(positions_.data(), positions.data(), positions.size() * 4);
  reinterpret_cast<double*>(scalars_.data())[static_cast<int>(program::Scalar::kInverseTokens)] =
      inverse_tokens;
  const size_t head = graph_.layers.size() - 1;
  const auto of = [&](size_t layer) { return graph_.layers[layer].templates; };
  for (size_t layer = 0; layer < head; ++layer) {
    RETURN_IF_ERROR(CallLayer(layer, of(layer).forward));
  }
  RETURN_IF_ERROR(CallLayer(head, of(head).backward));
  for (size_t layer = head; layer-- > 0;) {
    RETURN_IF_ERROR(CallLayer(layer, split ? of(layer).backward_input : of(layer).backward));
  }
  for (size_t layer = head; split && layer-- > 0;) {
    RETURN_IF_ERROR(CallLayer(layer, of(layer).backward_weight));
  }
  std::vector<double> losses;
  for (const Rank& rank : ranks_) {
    losses.push_back(*reinterpret_cast<const double*>(rank.loss.data()));
  }
  return losses;
}

}  // namespace strata::parity
