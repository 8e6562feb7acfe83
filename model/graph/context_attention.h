// Attention of the ranks of a context group, by each of the methods.
#ifndef STRATA_MODEL_GRAPH_CONTEXT_ATTENTION_H_
#define STRATA_MODEL_GRAPH_CONTEXT_ATTENTION_H_

#include "model/graph/emitter.h"

namespace strata::model {

// Of a kAttention node.
void ContextAttentionForward(Emitter& emitter, const Node& node);
// Of a kAttentionBackward node. What other ranks have is exchanged again.
void ContextAttentionBackward(Emitter& emitter, const Node& node);

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_CONTEXT_ATTENTION_H_
