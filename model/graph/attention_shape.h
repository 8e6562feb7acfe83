// The shape of an attention node on one rank.
#ifndef STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_
#define STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_

#include "model/graph/emitter.h"

namespace strata::model {

inline AttentionShape AttentionShapeOf(const Emitter& emitter, const Node& node) {
  const PassShape& shape = emitter.shape();
  const Attributes& a = node.attributes;
  return {.batch = shape.batch,
          .sequence = shape.sequence,
          .heads = a.heads / shape.degree,
          .kv_heads = a.kv_heads / shape.degree,
          .head_size = a.head_size,
          .scores = {.window = a.window, .softcap = a.softcap, .scale = a.score_scale},
          .type = emitter.graph().type};
}

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_
