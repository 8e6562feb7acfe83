// Causal attention over packed q, k, v, in tiles that never exist whole (Dao, "FlashAttention-2",
// 2023); where rows continue a sequence, over a cache.
#include <algorithm>
#include <utility>
#include <vector>

#include "model/graph/attention_shape.h"
#include "model/graph/context_attention.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

class ForwardOfAttention : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId qkv = node.in[0];
    const ValueId dqkv = tape.Make(qkv);
    std::vector<ValueId> in = {tape.Gradient(node.out[0]), qkv, node.out[0], node.out[1]};
    in.insert(in.end(), node.in.begin() + 1, node.in.end());  // positions, where there are any
    graph.Add(
        {NodeKind::kAttentionBackward, std::move(in), {dqkv}, -1, node.attributes, Phase::kInput});
    tape.Contribute(qkv, dqkv);
  }
  // Two products of 2·T·H·D per row, of which the mask leaves half; a window w leaves w rows of T,
  // but w/2 in the mean of the first ones.
  double Flops(const Graph& /*graph*/, const Node& node, int64_t sequence) const override {
    const Attributes& a = node.attributes;
    const double rows = static_cast<double>(sequence);
    const double seen = a.window > 0 ? std::min(static_cast<double>(a.window), rows) : rows;
    return 4.0 * seen * (1 - seen / (2 * rows)) * static_cast<double>(a.heads * a.head_size);
  }
  int statistic() const override { return 1; }
  bool by_rows() const override { return false; }
  void Lower(Emitter& e, const Node& node) const override {
    const AttentionShape shape = AttentionShapeOf(e, node);
    if (e.shape().context_ranks > 1) return ContextAttentionForward(e, node);
    if (!e.shape().decodes) {
      AttentionForward(e.builder(), shape, e.In(node, 0), e.Out(node, 0), e.Out(node, 1),
                       e.InOrNone(node, 1));
      return;
    }
    const int64_t context = e.shape().context;
    const program::DType type = e.graph().type;
    const int64_t half = CacheHalfBytes(context, shape.kv_heads, shape.head_size, type);
    const int64_t used = program::BytesOf(type, context * shape.kv_heads * shape.head_size);
    const View cache = e.builder().Formal(program::Role::kCache, 0, 2 * half, "cache").As(type);
    AttentionDecode(e.builder(), shape, context, e.In(node, 0), cache.Part(0, used),
                    cache.Part(half, used), e.Scalars(), e.Out(node, 0));
  }
};

class BackwardOfAttention : public NodeRule {
 public:
  bool by_rows() const override { return false; }
  void Lower(Emitter& e, const Node& node) const override {
    if (e.shape().context_ranks > 1) return ContextAttentionBackward(e, node);
    AttentionBackward(e.builder(), AttentionShapeOf(e, node), e.In(node, 0), e.In(node, 1),
                      e.In(node, 2), e.In(node, 3), e.Out(node, 0), e.InOrNone(node, 4));
  }
};

}  // namespace

ValueId Attention(Graph& graph, ValueId qkv, ValueId positions, const Heads& heads,
                  const AttentionOptions& options, std::string name, std::string statistic) {
  const ValueId out = graph.Make(std::move(name), heads.heads * heads.head_size, Layout::kColumns);
  const ValueId log_sum_exp =
      graph.MakeStatistic(std::move(statistic), heads.heads, Layout::kColumns);
  std::vector<ValueId> in = {graph.As(qkv, Layout::kColumns)};
  if (positions >= 0) in.push_back(positions);
  graph.Add({NodeKind::kAttention,
             std::move(in),
             {out, log_sum_exp},
             -1,
             {.heads = heads.heads,
              .kv_heads = heads.kv_heads,
              .head_size = heads.head_size,
              .window = options.window,
              .score_scale = options.scale,
              .softcap = options.softcap}});
  return out;
}

const NodeRule& AttentionRule() {
  static const ForwardOfAttention rule;
  return rule;
}
const NodeRule& AttentionBackwardRule() {
  static const BackwardOfAttention rule;
  return rule;
}

}  // namespace strata::model
