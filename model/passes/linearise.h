// Nodes in the order in which a template executes them, in loops over chunks of rows.
//
// What is demanded is emitted in its order, and whatever else it reads right before it: a replay as
// late as possible, dead code never. A loop is a run of nodes that hand each other values which
// exist for a chunk of rows at a time only: gathered rows, partial sums on their way to a
// reduction, streamed values. A gathered value ends with its loop; who reads it later gathers
// again.
#ifndef STRATA_MODEL_PASSES_LINEARISE_H_
#define STRATA_MODEL_PASSES_LINEARISE_H_

#include <set>
#include <vector>

#include "model/graph/graph.h"

namespace strata::model {

using Loop = std::vector<Node>;

// One thing that a template is for: a node executed, or a value at hand.
struct Demand {
  NodeId node = -1;
  ValueId value = -1;
};

// `at_hand`: values that are there when the template begins, beside those given from outside.
// Streamed values are loops' own unless at hand or among `whole` (which exist for all rows).
std::vector<Loop> Linearise(const Graph& graph, const std::vector<Demand>& demands,
                            const std::set<ValueId>& at_hand, const std::set<ValueId>& whole);

// An addition and the norm of its sum become one node.
void FuseAddNorm(const Graph& graph, std::vector<Loop>& loops);

// A loop of streamed values takes in the row-wise nodes before and behind it, so that what these
// hand over exists for a chunk of rows too. Not across a Redistribute node: there the chunks are
// the collective's.
void WidenStreamed(const Graph& graph, std::vector<Loop>& loops);

// Streamed values that the loop makes.
std::vector<ValueId> StreamedIn(const Graph& graph, const Loop& loop);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_LINEARISE_H_
