#include "model/lora_proto.h"

namespace strata::model {
namespace {

program::DType TypeOf(const v1::QuantizeSpec& quantize) {
  if (quantize.type() == v1::QuantizeSpec::TYPE_INT8) return program::DType::kInt8;
  // Jobs of before it could be said have double quantisation.
  const bool f32_scales = quantize.has_double_() && !quantize.double_();
  return f32_scales ? program::DType::kNf4F32 : program::DType::kNf4;
}

}  // namespace

LoraOptions LoraOf(const v1::TrainSpec& train) {
  LoraOptions options;
  if (!TrainsAdapters(train)) return options;
  options.rank = train.lora().rank();
  options.alpha = train.lora().alpha();
  options.targets.assign(train.lora().targets().begin(), train.lora().targets().end());
  if (train.method() == v1::TrainSpec::METHOD_QLORA) options.quantised = TypeOf(train.quantize());
  return options;
}

}  // namespace strata::model
