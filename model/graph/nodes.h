// What a forward is written with: each function adds a node and gives the value it makes.
// Legend: N rows of a pass, C hidden, H query heads, K kv heads, D head size, F ffn, V vocab.
#ifndef STRATA_MODEL_GRAPH_NODES_H_
#define STRATA_MODEL_GRAPH_NODES_H_

#include <cstdint>
#include <string>

#include "model/graph/graph.h"

namespace strata::model {

// What heads an attention has; of all ranks together.
struct Heads {
  int64_t heads = 0, kv_heads = 0, head_size = 0;
};

// Rows of `table` [V, C] by tokens [N].
ValueId Embed(Graph& graph, ValueId tokens, WeightId table, std::string name);
// y = x / rms(x) · weight; `statistic` names 1 / rms(x), one number per row.
ValueId Norm(Graph& graph, ValueId x, WeightId weight, double epsilon, std::string name,
             std::string statistic);
// y = x · Wᵀ with W [out, in].
ValueId Linear(Graph& graph, ValueId x, WeightId weight, std::string name);
// The same with more columns behind those of `weight`, which is cut by its rows: x times the rows
// of one head of `shared`, whose parts (keys, values) have `heads` heads each, fewer than the group
// has ranks, which divide evenly among them. All ranks hold the weight whole; those of one head
// make the same columns, and each has a part of the head's gradient.
ValueId LinearWithShared(Graph& graph, ValueId x, WeightId weight, WeightId shared, int64_t heads,
                         std::string name);
// Turns the queries and keys of packed q, k, v [(H + 2K)·D] by their positions (Su et al., 2021):
// where `positions` [N] says, or (-1) where rows stand in their sequence.
ValueId Rope(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads, std::string name);
// Causal, grouped queries [N, H·D]; `statistic` names the log-sum-exp of the scores [N, H]. With
// positions (not -1) a sequence is several documents, each with positions from 0 on, and rows see
// those of their own.
ValueId Attention(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads,
                  std::string name, std::string statistic);
// silu(gate) · up of packed gate, up [N, 2F].
ValueId Swiglu(Graph& graph, ValueId gate_up, std::string name);
ValueId Add(Graph& graph, ValueId x, ValueId branch, std::string name);
// Cross entropy over the vocabulary, summed over rows; targets [N], negative: not trained on. The
// layer's last node: makes no value.
void Loss(Graph& graph, ValueId logits, ValueId targets);

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_NODES_H_
