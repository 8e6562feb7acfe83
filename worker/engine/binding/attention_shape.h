// From the ops' shape of attention to the kernels'.
#ifndef STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_
#define STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_

#include "kernels/attention.h"
#include "ops/attention.h"

namespace strata::worker {

inline kernels::AttentionShape ShapeOf(const ops::AttentionShape& shape) {
  return {.batch = shape.batch,
          .sequence = shape.sequence,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_size = shape.head_size};
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_ATTENTION_SHAPE_H_
