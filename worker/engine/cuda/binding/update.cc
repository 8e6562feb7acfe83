#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/sgd.h"
#include "ops/adamw.h"
#include "ops/convert.h"
#include "ops/mixed_adamw.h"
#include "ops/sgd.h"
#include "worker/engine/binding/decay_segments.h"
#include "worker/engine/binding/update_operands.h"
#include "worker/engine/cuda/launchers.h"

namespace strata::worker {
namespace {

using kernels::cuda::UpdateScalars;
using kernels::cuda::UpdateSegment;
using program::DType;
using program::Scalar;

// What an update is beside its rates.
struct Update {
  cudaStream_t stream;
  UpdateScalars scalars;
  std::vector<UpdateSegment> segments;
  kernels::NumbersOfUpdate numbers;
};

Update MakeUpdate(const Launching& at, const UpdateOperands& operands) {
  Update update{.stream = at.stream,
                .scalars = {.applied = operands.at(Scalar::kApplied),
                            .learning_rate = operands.at(Scalar::kLearningRate),
                            .clip_factor = operands.at(Scalar::kClipFactor),
                            .predicate = {at.site.decides, at.site.negated}},
                .numbers = operands.numbers};
  for (const DecaySegment& segment : operands.segments) {
    update.segments.push_back({segment.begin, segment.end, segment.decay});
  }
  return update;
}

// Of AdamW and its fix-up, all f32. `gradient`: the operand that tells it.
template <typename Op>
Update ReadF32Update(OpReader& reader, const Launching& at, const ops::AdamWAttributes& of,
                     int gradient) {
  UpdateOperands operands{.scalars = reader.Scalars(Op::kScalars)};
  kernels::NumbersOfUpdate& numbers = operands.numbers;
  numbers.gradient = reader.Data(gradient);
  numbers.weights.weights = reader.Data(Op::kParam);
  numbers.next_weights.weights = reader.Data(Op::kNextParam);
  const auto moment = [&](int operand) {
    return kernels::Moments{.data = reader.Data(operand), .count = of.count};
  };
  numbers.moments = {moment(Op::kM), moment(Op::kV)};
  numbers.next_moments = {moment(Op::kNextM), moment(Op::kNextV)};
  operands.segments = CutAtDecay(of.decay, ShardIndexOf(reader) * of.stride + of.first, of.count);
  return MakeUpdate(at, operands);
}

template <typename Op>
kernels::cuda::AdamWRates RatesOf(const Op& op) {
  return {
      .beta1 = op.beta1, .beta2 = op.beta2, .epsilon = op.epsilon, .weight_decay = op.weight_decay};
}

}  // namespace

BoundOp LaunchAdamW(OpReader& reader, const Launching& at) {
  using Op = ops::AdamW;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return [rates = RatesOf(op->of), update = ReadF32Update<Op>(reader, at, op->of, Op::kDParam)] {
    return kernels::cuda::AdamW(update.stream, rates, update.scalars, update.segments,
                                update.numbers);
  };
}

BoundOp LaunchAdamWFixUp(OpReader& reader, const Launching& at) {
  using Op = ops::AdamWFixUp;
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  return
      [rates = RatesOf(op->of), update = ReadF32Update<Op>(reader, at, op->of, Op::kSpeculativeM)] {
        return kernels::cuda::AdamWFixUp(update.stream, rates, update.scalars, update.segments,
                                         update.numbers);
      };
}

BoundOp LaunchMixedAdamW(OpReader& reader, const Launching& at) {
  const std::optional<ops::MixedAdamW> op = reader.Read<ops::MixedAdamW>();
  if (!op) return {};
  return [rates = RatesOf(*op), update = MakeUpdate(at, ReadUpdateOperands(reader, op->numbers))] {
    return kernels::cuda::AdamW(update.stream, rates, update.scalars, update.segments,
                                update.numbers);
  };
}

BoundOp LaunchSgd(OpReader& reader, const Launching& at) {
  const std::optional<ops::Sgd> op = reader.Read<ops::Sgd>();
  if (!op) return {};
  const kernels::cuda::SgdRates rates{.momentum = op->momentum, .weight_decay = op->weight_decay};
  return [rates, update = MakeUpdate(at, ReadUpdateOperands(reader, op->numbers))] {
    return kernels::cuda::Sgd(update.stream, rates, update.scalars, update.segments,
                              update.numbers);
  };
}

namespace {

template <typename From, typename To>
BoundOp LaunchConversion(OpReader& reader, const Launching& at, int64_t count) {
  return [stream = at.stream, count,
          src = reinterpret_cast<const From*>(reader.Data(ops::Convert::kSrc)),
          dst = reinterpret_cast<To*>(reader.Data(ops::Convert::kDst))] {
    return kernels::cuda::Convert<From, To>(stream, count, src, dst);
  };
}

}  // namespace

BoundOp LaunchConvert(OpReader& reader, const Launching& at) {
  const std::optional<ops::Convert> op = reader.Read<ops::Convert>();
  if (!op) return {};
  const auto is = [&](DType from, DType to) { return op->from == from && op->to == to; };
  using kernels::BFloat16, kernels::Float16;
  const int64_t count = op->elements;
  if (is(DType::kF32, DType::kBF16)) return LaunchConversion<float, BFloat16>(reader, at, count);
  if (is(DType::kF32, DType::kF16)) return LaunchConversion<float, Float16>(reader, at, count);
  if (is(DType::kBF16, DType::kF32)) return LaunchConversion<BFloat16, float>(reader, at, count);
  if (is(DType::kF16, DType::kF32)) return LaunchConversion<Float16, float>(reader, at, count);
  reader.Fail(absl::UnimplementedError(
      absl::StrCat("no conversion from ", Name(op->from), " to ", Name(op->to))));
  return {};
}

}  // namespace strata::worker
