#include "tests/parity/tensor_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/status_macros.h"
#include "kernels/rope.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "program/ir/scalars.h"

namespace strata::parity {
namespace {

using program::Formal;
using program::Op;
using program::OpKind;
using program::Role;

constexpr int kNan = 0xFF;

float* F32(std::byte* data) { return reinterpret_cast<float*>(data); }
const int32_t* I32(const std::byte* data) { return reinterpret_cast<const int32_t*>(data); }

// The four ops of a vocabulary cut over ranks, as ops/ defines them.
void Embed(const ops::EmbeddingForward& op, int64_t first, const int32_t* tokens,
           const float* table, float* y) {
  for (int64_t i = 0; i < op.rows * op.channels; ++i) {
    const int64_t row = tokens[i / op.channels] - first;
    y[i] = row < 0 || row >= op.vocab ? 0 : table[row * op.channels + i % op.channels];
  }
}

void EmbedBackward(const ops::EmbeddingBackward& op, int64_t first, const int32_t* tokens,
                   const float* dy, float* dtable) {
  for (int64_t i = 0; i < op.rows * op.channels; ++i) {
    const int64_t row = tokens[i / op.channels] - first;
    if (row >= 0 && row < op.vocab) dtable[row * op.channels + i % op.channels] += dy[i];
  }
}

void Statistics(const ops::CrossEntropyStatistics& op, int64_t first, const float* logits,
                const int32_t* targets, float* statistics) {
  for (int64_t r = 0; r < op.rows; ++r) {
    const float* row = logits + r * op.vocab;
    const float most = *std::max_element(row, row + op.vocab);
    double sum = 0;
    for (int64_t i = 0; i < op.vocab; ++i) sum += std::exp(row[i] - most);
    const int64_t target = targets[r] - first;
    statistics[r * 3] = most;
    statistics[r * 3 + 1] = static_cast<float>(sum);
    statistics[r * 3 + 2] = target >= 0 && target < op.vocab ? row[target] : 0;
  }
}

void Finish(const ops::CrossEntropyFinish& op, int64_t first, float* logits, const int32_t* targets,
            const float* statistics, double inverse_tokens, double* loss) {
  for (int64_t r = 0; r < op.rows; ++r) {
    double most = -1e30, sum = 0, target = 0;
    for (int64_t p = 0; p < op.parts; ++p) {
      most = std::max<double>(most, statistics[(p * op.rows + r) * 3]);
    }
    for (int64_t p = 0; p < op.parts; ++p) {
      const float* part = statistics + (p * op.rows + r) * 3;
      sum += part[1] * std::exp(part[0] - most);
      target += part[2];
    }
    const bool trained = targets[r] >= 0;
    if (trained) *loss += most + std::log(sum) - target;
    for (int64_t i = 0; i < op.vocab; ++i) {
      float& logit = logits[r * op.vocab + i];
      const double share = std::exp(logit - most) / sum - (targets[r] == first + i ? 1 : 0);
      logit = trained ? static_cast<float>(share * inverse_tokens) : 0;
    }
  }
}

}  // namespace

TensorGroup::TensorGroup(program::LayerGraph graph, double rope_theta, int degree)
    : graph_(std::move(graph)), pool_(1), plans_(1), ranks_(degree) {
  for (Rank& rank : ranks_) {
    for (const program::ParameterSet& set : graph_.sets) {
      rank.parameters.emplace_back(set.bytes(), 0);
      rank.gradients.emplace_back(set.bytes(), 0);
    }
    rank.loss = Buffer(8, 0);
    rank.stream = Buffer(graph_.boundary_bytes, kNan);
  }
  tokens_ = Buffer(graph_.tokens() * 4, 0);
  targets_ = Buffer(graph_.tokens() * 4, 0);
  scalars_ = Buffer(program::kScalarBytes, kNan);
  rope_ = Buffer(graph_.constants[0].bytes, kNan);
  for (const Op& op : graph_.templates[graph_.layers[1].templates.forward].ops) {
    if (op.kind != OpKind::kRope) continue;
    const int64_t head_size = op.ints[4];
    kernels::BuildRopeTable(rope_.bytes() / 4 / head_size, head_size, rope_theta,
                            rope_.floats().data());
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
    case Role::kLoss:
      return rank.loss.data();
    case Role::kScalars:
      return scalars_.data();
    case Role::kConstants:
      return rope_.data();
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
    const int64_t index = static_cast<int64_t>(r);
    const auto at = [&](size_t operand) { return At(rank, op, operand); };
    if (op.kind == OpKind::kEmbeddingForward) {
      ASSIGN_OR_RETURN(const auto typed, ops::FromOp<ops::EmbeddingForward>(op));
      Embed(typed, index * typed.vocab, I32(at(0)), F32(at(1)), F32(at(2)));
    } else if (op.kind == OpKind::kEmbeddingBackward) {
      ASSIGN_OR_RETURN(const auto typed, ops::FromOp<ops::EmbeddingBackward>(op));
      EmbedBackward(typed, index * typed.vocab, I32(at(0)), F32(at(1)), F32(at(2)));
    } else if (op.kind == OpKind::kCrossEntropyStatistics) {
      ASSIGN_OR_RETURN(const auto typed, ops::FromOp<ops::CrossEntropyStatistics>(op));
      Statistics(typed, index * typed.vocab, F32(at(0)), I32(at(1)), F32(at(2)));
    } else if (op.kind == OpKind::kCrossEntropyFinish) {
      ASSIGN_OR_RETURN(const auto typed, ops::FromOp<ops::CrossEntropyFinish>(op));
      const double* scalars = reinterpret_cast<const double*>(at(3));
      Finish(typed, index * typed.vocab, F32(at(0)), I32(at(1)), F32(at(2)),
             scalars[static_cast<int>(program::Scalar::kInverseTokens)],
             reinterpret_cast<double*>(at(4)));
    } else {
      std::vector<worker::BoundOperand> operands;
      for (size_t i = 0; i < op.operands.size(); ++i) {
        operands.push_back({.data = at(i),
                            .bytes = op.operands[i].bytes,
                            .slot = rank.slots[op.operands[i].slot],
                            .offset = op.operands[i].offset});
      }
      ASSIGN_OR_RETURN(const worker::BoundOp bound,
                       worker::BindOp(op, operands, {.context = {&pool_}, .plans = &plans_}));
      RETURN_IF_ERROR(bound());
    }
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
                                                           double inverse_tokens, bool split) {
  split_ = split;
  std::memcpy(tokens_.data(), tokens.data(), tokens.size() * 4);
  std::memcpy(targets_.data(), targets.data(), targets.size() * 4);
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
