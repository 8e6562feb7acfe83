#include "planner/job/number_plan.h"

#include "model/optimizer/adamw.h"
#include "model/optimizer/sgd.h"

namespace strata::planner {
namespace {

using v1::OptimizerSpec;
using v1::TrainSpec;

bool IsSgd(const OptimizerSpec& optimizer) { return optimizer.name() == OptimizerSpec::NAME_SGD; }

}  // namespace

absl::StatusOr<program::DType> ComputeTypeOf(TrainSpec::Precision precision) {
  switch (precision) {
    case TrainSpec::PRECISION_UNSPECIFIED:
    case TrainSpec::PRECISION_F32:
      return program::DType::kF32;
    case TrainSpec::PRECISION_BF16:
      return program::DType::kBF16;
    case TrainSpec::PRECISION_F16:
      return program::DType::kF16;
    default:
      return absl::UnimplementedError("train.precision: fp8 is not supported yet — use bf16");
  }
}

model::NumberFormats NumberFormatsOf(const TrainSpec& train) {
  using State = model::NumberFormats::State;
  const OptimizerSpec& optimizer = train.optimizer();
  model::NumberFormats formats;
  if (optimizer.gradient() == OptimizerSpec::GRADIENT_BF16) {
    formats.gradient = program::DType::kBF16;
  }
  if (optimizer.master() == OptimizerSpec::MASTER_SPLIT) {
    formats.master = program::StateFormat::kRemainder;
  }
  if (optimizer.state() == OptimizerSpec::STATE_BF16) formats.state = State::kBF16;
  if (optimizer.state() == OptimizerSpec::STATE_8BIT) formats.state = State::k8Bit;
  return formats;
}

void SetTypes(const TrainSpec& train, program::Plan& plan) {
  const model::NumberFormats formats = NumberFormatsOf(train);
  plan.gradient = formats.gradient;
  plan.master = formats.master;
  plan.moments =
      IsSgd(train.optimizer()) ? model::SgdMoments(formats) : model::AdamWMoments(formats);
  plan.loss_scaling = train.precision() == TrainSpec::PRECISION_F16;
}

program::UpdateEmitter UpdateOf(const TrainSpec& train, program::DType gradient) {
  const OptimizerSpec& optimizer = train.optimizer();
  model::NumberFormats formats = NumberFormatsOf(train);
  formats.gradient = gradient;
  if (IsSgd(optimizer)) {
    const model::SgdSpec spec{optimizer.momentum(), optimizer.weight_decay()};
    return [spec, formats](const program::ParameterSet& set, const program::UpdateRange& range) {
      return model::EmitSgd(set, spec, formats, range);
    };
  }
  const model::AdamWSpec spec{optimizer.beta1(), optimizer.beta2(), optimizer.epsilon(),
                              optimizer.weight_decay()};
  return [spec, formats](const program::ParameterSet& set, const program::UpdateRange& range) {
    return model::EmitAdamW(set, spec, formats, range);
  };
}

}  // namespace strata::planner
