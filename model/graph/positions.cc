// Learned positions, into the bytes of what they are added to; backward adds rows to the table's
// gradient. The rows of a rank are its parts of every chunk (graph.h).
#include <utility>

#include "model/graph/node_rule.h"
#include "model/graph/nodes.h"

namespace strata::model {
namespace {

// Calls body(shape, the chunk's rows, positions of the group's rows in it) for each chunk.
template <typename Body>
void ForChunks(Emitter& e, const Node& node, const View& rows, const View& positions,
               const Body& body) {
  const PassShape& pass = e.shape();
  const Weight& table = e.graph().weights[node.weight];
  const int64_t whole = pass.rows() / pass.chunks;
  PositionsShape shape{.rows = whole / pass.degree,
                       .sequence = pass.sequence,
                       .channels = table.columns(),
                       .context = table.rows(),
                       .group = pass.group(),
                       .parts = pass.degree};
  for (int64_t chunk = 0; chunk < pass.chunks; ++chunk) {
    shape.first = chunk * whole;
    body(shape, rows.Rows(chunk * shape.rows, shape.rows, shape.channels),
         positions.slot < 0 ? positions : positions.Elements(shape.first, whole));
  }
}

class ForwardOfPositions : public NodeRule {
 public:
  void Differentiate(Graph& graph, const Node& node, Tape& tape) const override {
    const ValueId dy = tape.Gradient(node.out[0]);
    if (graph.weights[node.weight].trainable) {
      Node backward{.kind = NodeKind::kPositionsGradient,
                    .in = {dy},
                    .weight = node.weight,
                    .phase = Phase::kWeight};
      backward.in.insert(backward.in.end(), node.in.begin() + 1, node.in.end());
      graph.Add(std::move(backward));
    }
    tape.Contribute(node.in[0], dy);
  }
  int in_place(const Node& /*node*/) const override { return 0; }
  bool by_rows() const override { return false; }  // positions count from the first row
  void Lower(Emitter& e, const Node& node) const override {
    const View scalars = e.shape().decodes ? e.Scalars() : View{};
    ForChunks(e, node, e.Out(node, 0), e.InOrNone(node, 1),
              [&](const PositionsShape& shape, const View& rows, const View& positions) {
                AddPositions(e.builder(), shape, rows, e.Weight(node), scalars, positions);
              });
  }
};

class GradientOfPositions : public NodeRule {
 public:
  bool by_rows() const override { return false; }
  void Lower(Emitter& e, const Node& node) const override {
    ForChunks(e, node, e.In(node, 0), e.InOrNone(node, 1),
              [&](const PositionsShape& shape, const View& rows, const View& positions) {
                PositionsGradient(e.builder(), shape, rows, e.Gradient(node), positions);
              });
  }
};

}  // namespace

ValueId AddPositions(Graph& graph, ValueId x, ValueId positions, WeightId table, std::string name) {
  std::vector<ValueId> in = {graph.As(x, Layout::kRows)};
  if (positions >= 0) in.push_back(positions);
  const ValueId y = graph.Make(std::move(name), graph.values[x].width, Layout::kRows);
  graph.Add({NodeKind::kPositions, std::move(in), {y}, table});
  return y;
}

const NodeRule& PositionsRule() {
  static const ForwardOfPositions rule;
  return rule;
}
const NodeRule& PositionsGradientRule() {
  static const GradientOfPositions rule;
  return rule;
}

}  // namespace strata::model
