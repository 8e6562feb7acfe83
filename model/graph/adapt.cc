// y = base + h · Bᵀ on columns of the base: the way back from a low rank (Hu et al., "LoRA", 2021,
// §4.1). The way there, h = A · x, is a Linear and a Scale by alpha / rank.
#include <set>

#include "common/check.h"
#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

// One product's share of a node, as this rank has it.
struct Side {
  int64_t first = 0;    // columns of h
  int64_t column = 0;   // columns of y
  int64_t columns = 0;  // how many of them
  int64_t b_row = 0;    // first row of B
  SharedHeads heads;    // parts > 0: the rows of B are those of one head
};

class AdapterNode {
 public:
  AdapterNode(Emitter& e, const Node& node, ValueId h, ValueId y)
      : e_(e), node_(node), rank_(e.graph().weights[node.weight].columns()), h_(h), y_(y) {
    const Weight& b = e.graph().weights[node.weight];
    const int64_t heads = node.attributes.kv_heads, degree = e.shape().degree;
    const int64_t cut = e.graph().values[y].layout == Layout::kColumns ? degree : 1;
    int64_t row = 0;
    for (const AdaptedColumns& to : node.attributes.adapted) {
      Side side{to.first, to.column / cut, 0, 0, {}};
      const int64_t ways = heads > 0 ? heads : (b.cut == 0 ? degree : 1);
      side.columns = to.rows / ways;
      side.b_row = heads > 0 ? row : row / ways;
      if (heads > 0) {
        side.heads = {.blocks = 1,
                      .parts = heads,
                      .elements = side.columns * rank_,
                      .group = e.shape().group(),
                      .share = degree / heads};
      }
      sides_.push_back(side);
      row += to.rows;
    }
  }

  const std::vector<Side>& sides() const { return sides_; }
  int64_t rank() const { return rank_; }
  int64_t rows() const { return e_.rows(h_); }
  int64_t h_width() const { return e_.width(h_); }
  int64_t y_width() const { return e_.width(y_); }
  View OfH(const View& h, const Side& side) const { return Block(h, side.first, rank_, h_width()); }
  View OfY(const View& y, const Side& side) const {
    return Block(y, side.column, side.columns, y_width());
  }
  // The rows of B that this rank uses.
  View B(const Side& side) {
    const View weight = e_.Weight(node_);
    if (side.heads.parts == 0) return RowsOf(weight, side, 1);
    const View own = e_.Scratch("own adapter", side.columns * rank_, weight.type);
    TakeHeads(e_.builder(), side.heads, RowsOf(weight, side, side.heads.parts), own);
    return own;
  }
  // dyᵀ · h is added to B's gradient.
  void AddGradient(const Side& side, const MatMulShape& shape, const View& dy, const View& h) {
    const View gradient = e_.Gradient(node_);
    if (side.heads.parts == 0) {
      return MatMul(e_.builder(), shape, dy, h, RowsOf(gradient, side, 1), true);
    }
    const View own =
        e_.Scratch("own adapter's gradient", side.columns * rank_).Marked(gradient.partial);
    MatMul(e_.builder(), shape, dy, h, own, false);
    AddHeads(e_.builder(), side.heads, RowsOf(gradient, side, side.heads.parts), own);
  }

 private:
  // Columns of rows that are `width` apart.
  static View Block(const View& rows, int64_t column, int64_t columns, int64_t width) {
    return rows.Elements(column, rows.elements() - (width - columns));
  }
  // Of B or its gradient, what belongs to a side's part; of shared ones `heads` heads.
  View RowsOf(const View& b, const Side& side, int64_t heads) const {
    return b.Elements(side.b_row * rank_, side.columns * heads * rank_);
  }

  Emitter& e_;
  const Node& node_;
  const int64_t rank_;
  const ValueId h_, y_;
  std::vector<Side> sides_;
};

class ForwardOfAdapt : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId h = node.in[0], dy = tape.Gradient(node.out[0]);
    graph.Add({NodeKind::kAdaptWeightGradient,
               {h, dy},
               {},
               node.weight,
               node.attributes,
               Phase::kWeight});
    const ValueId dh = tape.Make(h);
    graph.Add(
        {NodeKind::kAdaptInputGradient, {dy}, {dh}, node.weight, node.attributes, Phase::kInput});
    tape.Contribute(h, dh);
    tape.Contribute(node.in[1], dy);
  }
  double Flops(const Graph& graph, const Node& node, int64_t /*sequence*/) const override {
    const Weight& b = graph.weights[node.weight];
    return 2.0 * static_cast<double>(b.rows()) * static_cast<double>(b.columns());
  }
  int in_place(const Node& /*node*/) const override { return 1; }
  void Lower(Emitter& e, const Node& node) const override {
    AdapterNode at(e, node, node.in[0], node.out[0]);
    const View h = e.In(node, 0), y = e.Out(node, 0);
    for (const Side& side : at.sides()) {
      MatMul(e.builder(),
             {.m = at.rows(),
              .n = side.columns,
              .k = at.rank(),
              .trans_b = true,
              .lda = at.h_width(),
              .ldc = at.y_width()},
             at.OfH(h, side), at.B(side), at.OfY(y, side), true);
    }
  }
};

// dh = dy · B.
class InputGradientOfAdapt : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    AdapterNode at(e, node, node.out[0], node.in[0]);
    const View dy = e.In(node, 0), dh = e.Out(node, 0);
    std::set<int64_t> written;  // parts of one module share its columns of h
    for (const Side& side : at.sides()) {
      MatMul(e.builder(),
             {.m = at.rows(),
              .n = at.rank(),
              .k = side.columns,
              .lda = at.y_width(),
              .ldc = at.h_width()},
             at.OfY(dy, side), at.B(side), at.OfH(dh, side), !written.insert(side.first).second);
    }
  }
};

// dB += dyᵀ · h.
class WeightGradientOfAdapt : public NodeRule {
 public:
  void Lower(Emitter& e, const Node& node) const override {
    AdapterNode at(e, node, node.in[0], node.in[1]);
    const View h = e.In(node, 0), dy = e.In(node, 1);
    for (const Side& side : at.sides()) {
      at.AddGradient(side,
                     {.m = side.columns,
                      .n = at.rank(),
                      .k = at.rows(),
                      .trans_a = true,
                      .lda = at.y_width(),
                      .ldb = at.h_width()},
                     at.OfY(dy, side), at.OfH(h, side));
    }
  }
};

}  // namespace

ValueId Adapt(Graph& graph, ValueId h, ValueId base, WeightId b,
              std::vector<AdaptedColumns> adapted, int64_t heads, std::string name) {
  const bool by_columns = graph.weights[b].cut == 0 || heads > 0;
  STRATA_CHECK(graph.weights[b].cut != 1);
  h = graph.As(h, by_columns ? Layout::kWhole : Layout::kRows);
  if (!by_columns) base = graph.As(base, Layout::kRows);
  const Value& of = graph.values[base];
  STRATA_CHECK(of.layout == (by_columns ? Layout::kColumns : Layout::kRows) || graph.degree == 1);
  const ValueId y = graph.Make(std::move(name), of.width, of.layout);
  graph.Add(
      {NodeKind::kAdapt, {h, base}, {y}, b, {.kv_heads = heads, .adapted = std::move(adapted)}});
  return y;
}

const NodeRule& AdaptRule() {
  static const ForwardOfAdapt rule;
  return rule;
}
const NodeRule& AdaptInputGradientRule() {
  static const InputGradientOfAdapt rule;
  return rule;
}
const NodeRule& AdaptWeightGradientRule() {
  static const WeightGradientOfAdapt rule;
  return rule;
}

}  // namespace strata::model
