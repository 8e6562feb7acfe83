// y = x · Wᵀ, W [out, in]. Cut by its rows (out) the product is column-parallel, by its columns
// (in) row-parallel (Megatron-LM, §3).
#include <utility>
#include <vector>

#include "common/check.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"
#include "model/graph/shared_columns.h"

namespace strata::model {
namespace {

// Of rows that are `width` apart, the first `columns` columns.
View Columns(const View& rows, int64_t columns, int64_t width) {
  return rows.Elements(0, rows.elements() - (width - columns));
}

class ForwardOfLinear : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId x = node.in[0];
    const ValueId dy = tape.Gradient(node.out[0]);
    if (graph.Trains(node)) {
      graph.Add({.kind = NodeKind::kLinearWeightGradient,
                 .in = {x, dy},
                 .weight = node.weight,
                 .attributes = node.attributes,
                 .phase = Phase::kWeight,
                 .second = node.second});
    }
    const ValueId dx = tape.Make(x);
    std::vector<ValueId> in = {dy};
    // Partial sums exist for a chunk of rows: those are added when they are whole.
    const bool adds = tape.Gradient(x) >= 0 && graph.values[dx].layout != Layout::kPartial;
    if (adds) in.push_back(tape.Gradient(x));
    graph.Add({.kind = NodeKind::kLinearInputGradient,
               .in = std::move(in),
               .out = {dx},
               .weight = node.weight,
               .attributes = node.attributes,
               .phase = Phase::kInput,
               .second = node.second});
    if (adds) return tape.Replace(x, dx);
    tape.Contribute(x, dx);
  }
  double Flops(const Graph& graph, const Node& node, int64_t /*sequence*/) const override {
    double flops = 0;
    for (const WeightId id : {node.weight, node.second}) {
      if (id < 0) continue;
      const Weight& weight = graph.weights[id];
      flops += 2.0 * static_cast<double>(weight.rows()) * static_cast<double>(weight.columns());
    }
    return flops;
  }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId y = node.out[0];
    const int64_t rows = e.rows(y), width = e.width(y), inner = e.width(node.in[0]);
    const View x = e.In(node, 0), out = e.Out(node, 0);
    if (node.second < 0) {
      return MatMul(e.builder(), {.m = rows, .n = width, .k = inner, .trans_b = true}, x,
                    e.Weight(node), out, false);
    }
    const SharedColumns shared = SharedColumnsOf(e, node, width);
    const View own = e.Scratch("own heads", shared.width * inner, e.graph().type);
    TakeHeads(e.builder(), shared.heads, e.Weight(node.second), own);
    MatMul(e.builder(), {.m = rows, .n = shared.own, .k = inner, .trans_b = true, .ldc = width}, x,
           e.Weight(node), Columns(out, shared.own, width), false);
    MatMul(e.builder(), {.m = rows, .n = shared.width, .k = inner, .trans_b = true, .ldc = width},
           x, own, out.FromColumn(shared.own), false);
  }
};

// dx = dy · W, or added to the gradient that x has so far.
class InputGradientOfLinear : public NodeRule {
 public:
  int in_place(const Node& node) const override { return node.in.size() > 1 ? 1 : -1; }
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId dx = node.out[0];
    const int64_t rows = e.rows(dx), columns = e.width(dx), width = e.width(node.in[0]);
    const View dy = e.In(node, 0), out = e.Out(node, 0);
    const bool adds = node.in.size() > 1;
    if (node.second < 0) {
      return MatMul(e.builder(), {.m = rows, .n = columns, .k = width}, dy, e.Weight(node), out,
                    adds);
    }
    const SharedColumns shared = SharedColumnsOf(e, node, width);
    const View own = e.Scratch("own heads", shared.width * columns, e.graph().type);
    TakeHeads(e.builder(), shared.heads, e.Weight(node.second), own);
    MatMul(e.builder(), {.m = rows, .n = columns, .k = shared.own, .lda = width},
           Columns(dy, shared.own, width), e.Weight(node), out, adds);
    MatMul(e.builder(), {.m = rows, .n = columns, .k = shared.width, .lda = width},
           dy.FromColumn(shared.own), own, out, true);
  }
};

// dW += dyᵀ · x.
class WeightGradientOfLinear : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    const ValueId x = node.in[0];
    const int64_t rows = e.rows(x), columns = e.width(x), width = e.width(node.in[1]);
    const View in = e.In(node, 0), dy = e.In(node, 1);
    if (node.second < 0) {
      return MatMul(e.builder(), {.m = width, .n = columns, .k = rows, .trans_a = true}, dy, in,
                    e.Gradient(node), true);
    }
    const SharedColumns shared = SharedColumnsOf(e, node, width);
    MatMul(e.builder(), {.m = shared.own, .n = columns, .k = rows, .trans_a = true, .lda = width},
           Columns(dy, shared.own, width), in, e.Gradient(node), true);
    const View sum = e.Gradient(node.second);
    const View own = e.Scratch("own heads' gradient", shared.width * columns).Marked(sum.partial);
    MatMul(e.builder(), {.m = shared.width, .n = columns, .k = rows, .trans_a = true, .lda = width},
           dy.FromColumn(shared.own), in, own, false);
    AddHeads(e.builder(), shared.heads, sum, own);
  }
};

}  // namespace

ValueId Linear(Graph& graph, ValueId x, WeightId weight, std::string name) {
  const Weight& w = graph.weights[weight];
  Layout in = Layout::kRows;
  Layout out = Layout::kRows;
  if (w.cut == 0) {
    in = Layout::kWhole;
    out = Layout::kColumns;
  } else if (w.cut == 1) {
    in = Layout::kColumns;
    out = Layout::kPartial;
  }
  STRATA_CHECK(graph.values[x].width == w.columns());
  x = graph.As(x, in);
  const ValueId y = graph.Make(std::move(name), graph.weights[weight].rows(), out);
  graph.Add({NodeKind::kLinear, {x}, {y}, weight});
  return y;
}

ValueId LinearWithShared(Graph& graph, ValueId x, WeightId weight, WeightId shared, int64_t heads,
                         std::string name) {
  const Weight &w = graph.weights[weight], &behind = graph.weights[shared];
  STRATA_CHECK(w.cut == 0 && behind.cut < 0 && behind.columns() == w.columns());
  STRATA_CHECK(graph.values[x].width == w.columns() && graph.degree % heads == 0);
  x = graph.As(x, Layout::kWhole);
  const ValueId y = graph.Make(std::move(name), w.rows() + graph.degree * behind.rows() / heads,
                               Layout::kColumns);
  graph.Add({.kind = NodeKind::kLinear,
             .in = {x},
             .out = {y},
             .weight = weight,
             .attributes = {.kv_heads = heads},
             .second = shared});
  return y;
}

const NodeRule& LinearRule() {
  static const ForwardOfLinear rule;
  return rule;
}
const NodeRule& LinearInputGradientRule() {
  static const InputGradientOfLinear rule;
  return rule;
}
const NodeRule& LinearWeightGradientRule() {
  static const WeightGradientOfLinear rule;
  return rule;
}

}  // namespace strata::model
