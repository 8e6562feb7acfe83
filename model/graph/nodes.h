// What a forward is written with: each function adds a node and gives the value it makes.
// Legend: N rows of a pass, C hidden, H query heads, K kv heads, D head size, F ffn, V vocab.
#ifndef STRATA_MODEL_GRAPH_NODES_H_
#define STRATA_MODEL_GRAPH_NODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph/graph.h"

namespace strata::model {

// What heads an attention has; of all ranks together.
struct Heads {
  int64_t heads = 0, kv_heads = 0, head_size = 0;
};

// Rows of `table` [V, C] by tokens [N], times `scale`.
ValueId Embed(Graph& graph, ValueId tokens, WeightId table, double scale, std::string name);
// x + rows of `table` [context, C] by positions: where `positions` [N] says, or (-1) where rows
// stand in their sequence.
ValueId AddPositions(Graph& graph, ValueId x, ValueId positions, WeightId table, std::string name);

struct NormOptions {
  double epsilon = 0;
  bool plus_one = false;  // the weight is 1 + w
};
// y = x / rms(x) · weight; `statistic` names 1 / rms(x), one number per row.
ValueId Norm(Graph& graph, ValueId x, WeightId weight, const NormOptions& options, std::string name,
             std::string statistic);
// y = (x − mean(x)) / std(x) · weight + bias; `statistic` names mean and 1 / std of each row.
ValueId LayerNorm(Graph& graph, ValueId x, WeightId weight, WeightId bias, double epsilon,
                  std::string name, std::string statistic);
// Of packed q, k, v each head of queries and keys as Norm, by itself; `statistic` [N, H + K].
ValueId HeadNorm(Graph& graph, ValueId qkv, WeightId queries, WeightId keys, const Heads& heads,
                 const NormOptions& options, std::string name, std::string statistic);
// y = x · Wᵀ with W [out, in].
ValueId Linear(Graph& graph, ValueId x, WeightId weight, std::string name);
// The same with more columns behind those of `weight`, which is cut by its rows: x times the rows
// of one head of `shared`, whose parts (keys, values) have `heads` heads each, fewer than the group
// has ranks, which divide evenly among them. All ranks hold the weight whole; those of one head
// make the same columns, and each has a part of the head's gradient.
ValueId LinearWithShared(Graph& graph, ValueId x, WeightId weight, WeightId shared, int64_t heads,
                         std::string name);
// x + bias [width], which is cut as the columns of x are, or whole.
ValueId Bias(Graph& graph, ValueId x, WeightId bias, std::string name);
// Of what LinearWithShared made, with elements of `shared` as its rows.
ValueId BiasWithShared(Graph& graph, ValueId x, WeightId bias, WeightId shared, int64_t heads,
                       std::string name);

struct RopeOptions {
  int table = 0;       // index of the constant with the angles
  int64_t rotary = 0;  // first elements of a head that turn; 0: all
};
// Turns the queries and keys of packed q, k, v [(H + 2K)·D] by their positions (Su et al., 2021):
// where `positions` [N] says, or (-1) where rows stand in their sequence.
ValueId Rope(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads,
             const RopeOptions& options, std::string name);

struct AttentionOptions {
  int64_t window = 0;  // a row sees the last `window`, itself included; 0: all
  double softcap = 0;  // scores become softcap · tanh(score / softcap); 0: they do not
  double scale = 0;    // of q · k; 0: 1 / √D
};
// Causal, grouped queries [N, H·D]; `statistic` names the log-sum-exp of the scores [N, H]. With
// positions (not -1) a sequence is several documents, each with positions from 0 on, and rows see
// those of their own.
ValueId Attention(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads,
                  const AttentionOptions& options, std::string name, std::string statistic);
// f(gate) · up of packed gate, up [N, 2F].
ValueId Glu(Graph& graph, ValueId gate_up, Function function, std::string name);
// f(x).
ValueId Activate(Graph& graph, ValueId x, Function function, std::string name);
ValueId Add(Graph& graph, ValueId x, ValueId branch, std::string name);
// x · factor.
ValueId Scale(Graph& graph, ValueId x, double factor, std::string name);
// `base`, with h · Bᵀ added to columns of it, as `adapted` says. B [out, rank] is cut by its rows
// like the weight that made the base, or whole where all rows of the base are. With `heads` > 0 all
// ranks hold B whole and use the rows of one head, as LinearWithShared does.
ValueId Adapt(Graph& graph, ValueId h, ValueId base, WeightId b,
              std::vector<AdaptedColumns> adapted, int64_t heads, std::string name);
// cap · tanh(x / cap). For values that are shown: training has Loss, which knows of caps.
ValueId Softcap(Graph& graph, ValueId x, double cap, std::string name);
// Cross entropy over the vocabulary, summed over rows, of the logits after `softcap` (0: none);
// targets [N], negative: not trained on. The layer's last node: makes no value.
void Loss(Graph& graph, ValueId logits, ValueId targets, double softcap);

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_NODES_H_
