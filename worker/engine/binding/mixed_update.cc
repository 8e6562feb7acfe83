#include "kernels/adamw.h"
#include "kernels/sgd.h"
#include "ops/mixed_adamw.h"
#include "ops/sgd.h"
#include "worker/engine/binding/update_operands.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {

using program::Scalar;

BoundOp BindMixedAdamW(OpReader& reader) {
  const std::optional<ops::MixedAdamW> op = reader.Read<ops::MixedAdamW>();
  if (!op) return {};
  return [context = reader.context(), bound = ReadUpdateOperands(reader, op->numbers),
          beta1 = op->beta1, beta2 = op->beta2, epsilon = op->epsilon,
          weight_decay = op->weight_decay] {
    for (const auto& [begin, end, decay] : bound.segments) {
      kernels::MixedAdamW(context, begin, end,
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
  return [context = reader.context(), bound = ReadUpdateOperands(reader, op->numbers),
          momentum = op->momentum, weight_decay = op->weight_decay] {
    for (const auto& [begin, end, decay] : bound.segments) {
      kernels::Sgd(context, begin, end,
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
