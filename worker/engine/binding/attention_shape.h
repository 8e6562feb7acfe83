// From the ops' shape of attention to the kernels'.
#ifndef STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_
#define STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_

#include "kernels/attention.h"
#include "ops/attention.h"

namespace strata::worker {

inline kernels::ScoreOptions OptionsOf(const ops::AttentionScores& scores) {
  return {.window = scores.window,
          .softcap = static_cast<float>(scores.softcap),
          .scale = static_cast<float>(scores.scale)};
}

inline kernels::AttentionShape ShapeOf(const ops::AttentionShape& shape) {
  return {.batch = shape.batch,
          .sequence = shape.sequence,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_size = shape.head_size,
          .scores = OptionsOf(shape.scores)};
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_
