// The shape of an attention node on one rank.
#ifndef STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_
#define STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_

#include "model/graph/emitter.h"

namespace strata::model {

inline AttentionShape AttentionShapeOf(const Emitter& emitter, const Node& node) {
  const PassShape& shape = emitter.shape();
  return {shape.batch, shape.sequence, node.attributes.heads / shape.degree,
          node.attributes.kv_heads / shape.degree, node.attributes.head_size};
}

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_ATTENTION_SHAPE_H_
