// Executes a graph of degree 1 node by node in f64, straight from each node's definition: what
// derivatives are held against.
#ifndef STRATA_MODEL_GRAPH_REFERENCE_H_
#define STRATA_MODEL_GRAPH_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"
#include "model/rope_table.h"

namespace strata::model {

struct Reference {
  using Numbers = std::vector<double>;

  // Values and weights of a graph at B × T rows, all zeros.
  Reference(const Graph& graph, int64_t batch, int64_t sequence);

  // All forward nodes, then (of a differentiated graph) all backward nodes. Tokens and targets are
  // whole numbers in their values.
  void Forward();
  void Backward();

  // Of the constants that rotary positions read, by index; none: plain angles of base 10,000.
  std::vector<RotaryAngles> tables;
  const Graph& graph;
  int64_t sequence = 0;
  int64_t rows = 0;
  std::vector<Numbers> values;   // by ValueId, [rows, width]
  std::vector<Numbers> weights;  // by WeightId
  std::vector<Numbers> weight_gradients;
  double loss = 0;
};

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_REFERENCE_H_
