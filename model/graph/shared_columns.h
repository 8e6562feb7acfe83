// Columns that a weight which several ranks share makes, behind those of a node's own weight
// (LinearWithShared).
#ifndef STRATA_MODEL_GRAPH_SHARED_COLUMNS_H_
#define STRATA_MODEL_GRAPH_SHARED_COLUMNS_H_

#include <cstdint>

#include "model/graph/emitter.h"

namespace strata::model {

struct SharedColumns {
  SharedHeads heads;
  int64_t width = 0;
  int64_t own = 0;  // columns before them
};

// Of a node whose `second` weight is shared, and whose value is `width` wide on this rank.
inline SharedColumns SharedColumnsOf(const Emitter& e, const Node& node, int64_t width) {
  const Weight& shared = e.graph().weights[node.second];
  const int64_t degree = e.shape().degree, heads = node.attributes.kv_heads;
  const int64_t blocks = shared.tensor.part_count();
  SharedColumns columns;
  columns.width = shared.rows() / heads;
  columns.own = width - columns.width;
  columns.heads = {.blocks = blocks,
                   .parts = heads,
                   .elements = shared.rows() / blocks / heads * shared.columns(),
                   .group = e.shape().group(),
                   .share = degree / heads};
  return columns;
}

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_SHARED_COLUMNS_H_
