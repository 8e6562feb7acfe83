#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/adamw.h"
#include "kernels/sgd.h"
#include "ops/mixed_adamw.h"
#include "ops/sgd.h"
#include "worker/engine/binding/decay_segments.h"
#include "worker/engine/binding/number_formats.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using ops::UpdateNumbers;
using program::Scalar;

// What an update needs beside its rates.
struct BoundNumbers {
  kernels::Context context;
  kernels::NumbersOfUpdate numbers;
  std::vector<DecaySegment> segments;
  const double* scalars = nullptr;

  double scalar(Scalar scalar) const { return scalars[static_cast<int>(scalar)]; }
};

BoundNumbers ReadNumbers(OpReader& reader, const UpdateNumbers& of) {
  BoundNumbers bound{.context = reader.context(),
                     .scalars = reader.Scalars(UpdateNumbers::kScalars)};
  kernels::NumbersOfUpdate& numbers = bound.numbers;
  numbers.gradient_type = NumberTypeOf(of.gradient);
  numbers.gradient = reader.Data(UpdateNumbers::kGradient);
  numbers.weights.type = NumberTypeOf(of.weights);
  if (of.has_master()) numbers.weights.master_format = MasterFormatOf(of.master);
  numbers.next_weights = numbers.weights;
  if (of.reads_weights()) numbers.weights.weights = reader.Data(of.read_weights());
  numbers.next_weights.weights = reader.Data(UpdateNumbers::kNextWeights);
  int state = 0;
  const auto take = [&](std::byte*& now, std::byte*& next) {
    now = reader.Data(UpdateNumbers::kStates + state);
    next = reader.Data(of.next_state(state));
    ++state;
  };
  if (of.has_master()) take(numbers.weights.master, numbers.next_weights.master);
  for (int m = 0; m < of.moment_count; ++m) {
    numbers.moments[m] = {.format = MomentFormatOf(of.moments[m]), .count = of.count};
    numbers.next_moments[m] = numbers.moments[m];
    take(numbers.moments[m].data, numbers.next_moments[m].data);
  }
  int shard_index = 0;  // of the operands that are parts of whole slots
  for (int operand = 0; operand < reader.operands(); ++operand) {
    shard_index = std::max(shard_index, reader.operand(operand).shard_index);
  }
  bound.segments = CutAtDecay(of.decay, shard_index * of.stride + of.first, of.count,
                              of.has_blocks() ? program::kStateBlock : 16);
  for (const DecaySegment& segment : bound.segments) {
    if (!of.has_blocks() || segment.begin % program::kStateBlock == 0) continue;
    reader.Fail(absl::InvalidArgumentError(
        absl::StrCat("weight decay begins inside a block, at element ", segment.begin)));
  }
  return bound;
}

}  // namespace

BoundOp BindMixedAdamW(OpReader& reader) {
  const std::optional<ops::MixedAdamW> op = reader.Read<ops::MixedAdamW>();
  if (!op) return {};
  return [bound = ReadNumbers(reader, op->numbers), beta1 = op->beta1, beta2 = op->beta2,
          epsilon = op->epsilon, weight_decay = op->weight_decay] {
    for (const auto& [begin, end, decay] : bound.segments) {
      kernels::MixedAdamW(bound.context, begin, end,
                          {.learning_rate = bound.scalar(Scalar::kLearningRate),
                           .beta1 = beta1,
                           .beta2 = beta2,
                           .epsilon = epsilon,
                           .weight_decay = decay ? weight_decay : 0,
                           .step = static_cast<int64_t>(bound.scalar(Scalar::kApplied)) + 1,
                           .grad_factor = bound.scalar(Scalar::kClipFactor)},
                          bound.numbers);
    }
    return absl::OkStatus();
  };
}

BoundOp BindSgd(OpReader& reader) {
  const std::optional<ops::Sgd> op = reader.Read<ops::Sgd>();
  if (!op) return {};
  return [bound = ReadNumbers(reader, op->numbers), momentum = op->momentum,
          weight_decay = op->weight_decay] {
    for (const auto& [begin, end, decay] : bound.segments) {
      kernels::Sgd(bound.context, begin, end,
                   {.learning_rate = bound.scalar(Scalar::kLearningRate),
                    .momentum = momentum,
                    .weight_decay = decay ? weight_decay : 0,
                    .grad_factor = bound.scalar(Scalar::kClipFactor)},
                   bound.numbers);
    }
    return absl::OkStatus();
  };
}

}  // namespace strata::worker
