#include "kernels/adamw.h"

#include <algorithm>
#include <vector>

#include "ops/adamw.h"
#include "worker/engine/binding/decay_segments.h"
#include "worker/engine/op_reader.h"

namespace strata::worker {
namespace {

using program::Scalar;

// What both updates share. `from` is the operand that tells the gradient: itself, or the
// speculative first moment.
struct BoundUpdate {
  kernels::Context context;
  kernels::AdamWParams fixed;
  const double* scalars = nullptr;
  std::vector<DecaySegment> segments;
  const float *from = nullptr, *param_in = nullptr, *m_in = nullptr, *v_in = nullptr;
  float *param_out = nullptr, *m_out = nullptr, *v_out = nullptr;

  template <typename Kernel>
  absl::Status Run(Kernel kernel) const {
    kernels::AdamWParams params = fixed;
    params.learning_rate = scalars[static_cast<int>(Scalar::kLearningRate)];
    params.step = static_cast<int64_t>(scalars[static_cast<int>(Scalar::kApplied)]) + 1;
    params.grad_factor = scalars[static_cast<int>(Scalar::kClipFactor)];
    for (const auto& [begin, end, decay] : segments) {
      params.weight_decay = decay ? fixed.weight_decay : 0;
      kernel(context, end - begin, params, from + begin, param_in + begin, m_in + begin,
             v_in + begin, param_out + begin, m_out + begin, v_out + begin);
    }
    return absl::OkStatus();
  }
};

template <typename Op>
BoundUpdate ReadUpdate(OpReader& reader, int from) {
  const std::optional<Op> op = reader.Read<Op>();
  if (!op) return {};
  const ops::AdamWAttributes& attributes = op->of;
  int shard_index = 0;  // of the operands that are parts of whole slots
  for (const int operand : {int{Op::kParam}, int{Op::kM}, int{Op::kV}, from, int{Op::kNextParam},
                            int{Op::kNextM}, int{Op::kNextV}}) {
    shard_index = std::max(shard_index, reader.operand(operand).shard_index);
  }
  return {
      .context = reader.context(),
      .fixed = {.beta1 = attributes.beta1,
                .beta2 = attributes.beta2,
                .epsilon = attributes.epsilon,
                .weight_decay = attributes.weight_decay},
      .scalars = reader.Scalars(Op::kScalars),
      .segments = CutAtDecay(attributes.decay, shard_index * attributes.stride + attributes.first,
                             attributes.count),
      .from = reader.F32(from),
      .param_in = reader.F32(Op::kParam),
      .m_in = reader.F32(Op::kM),
      .v_in = reader.F32(Op::kV),
      .param_out = reader.F32(Op::kNextParam),
      .m_out = reader.F32(Op::kNextM),
      .v_out = reader.F32(Op::kNextV)};
}

}  // namespace

BoundOp BindAdamW(OpReader& reader) {
  using Op = ops::AdamW;
  return [update = ReadUpdate<Op>(reader, Op::kDParam)] { return update.Run(kernels::AdamW); };
}

BoundOp BindAdamWFixUp(OpReader& reader) {
  using Op = ops::AdamWFixUp;
  return [update = ReadUpdate<Op>(reader, Op::kSpeculativeM)] {
    return update.Run(kernels::AdamWFixUp);
  };
}

}  // namespace strata::worker
