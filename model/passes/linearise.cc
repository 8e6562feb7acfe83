#include "model/passes/linearise.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/check.h"
#include "model/graph/node_rule.h"

namespace strata::model {
namespace {

bool Reads(const Node& reader, const Node& maker) {
  for (const ValueId out : maker.out) {
    if (std::find(reader.in.begin(), reader.in.end(), out) != reader.in.end()) return true;
  }
  return false;
}

bool Reads(const Loop& loop, const Node& maker) {
  return std::any_of(loop.begin(), loop.end(),
                     [&](const Node& reader) { return Reads(reader, maker); });
}

class Lineariser {
 public:
  Lineariser(const Graph& graph, const std::set<ValueId>& at_hand, const std::set<ValueId>& whole)
      : graph_(graph), at_hand_(at_hand), whole_(whole) {}

  void Pull(ValueId value) {
    if (at_hand_.contains(value) || graph_.values[value].producer < 0) return;
    Emit(graph_.values[value].producer);
  }

  void Emit(NodeId id) {
    Node node = Repeated(graph_.nodes[id]);
    // What lasts comes first: making it may end the loop in which the others exist.
    for (const ValueId in : node.in) {
      if (graph_.Source(in) == in) Pull(in);
    }
    for (const ValueId in : node.in) Pull(in);
    const bool joins = std::any_of(node.in.begin(), node.in.end(),
                                   [&](ValueId in) { return carried_.contains(in); });
    if (!joins) {
      for (const ValueId gone : carried_) at_hand_.erase(gone);
      carried_.clear();
      loops_.emplace_back();
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId out = node.out[i];
      if (!at_hand_.insert(out).second) node.discarded |= 1u << i;
      if (IsCarried(node, out)) carried_.insert(out);
    }
    loops_.back().push_back(std::move(node));
  }

  std::vector<Loop> Take() && { return std::move(loops_); }

 private:
  // A norm whose statistic is at hand need not be made from the sums of squares on.
  Node Repeated(const Node& node) const {
    const bool heads = node.kind == NodeKind::kHeadNorm;
    if ((node.kind != NodeKind::kNorm && !heads) || !at_hand_.contains(node.out[1]) ||
        at_hand_.contains(node.out[0])) {
      return node;
    }
    Node replay = node;
    replay.kind = heads ? NodeKind::kHeadNormReplay : NodeKind::kNormReplay;
    replay.in.push_back(node.out[1]);
    replay.out = {node.out[0]};
    return replay;
  }

  bool IsCarried(const Node& node, ValueId out) const {
    const Value& value = graph_.values[out];
    if (value.streamed) return !whole_.contains(out);
    if (graph_.degree == 1) return false;
    return value.layout == Layout::kPartial ||
           (node.kind == NodeKind::kRedistribute && value.layout == Layout::kWhole);
  }

  const Graph& graph_;
  std::set<ValueId> at_hand_;
  const std::set<ValueId>& whole_;
  std::set<ValueId> carried_;  // by the open loop, the last
  std::vector<Loop> loops_;
};

bool IsFusible(const Loop& adds, const Loop& norms) {
  return adds.size() == 1 && adds[0].kind == NodeKind::kAdd && norms[0].kind == NodeKind::kNorm &&
         norms[0].in[0] == adds[0].out[0];
}

}  // namespace

std::vector<Loop> Linearise(const Graph& graph, const std::vector<Demand>& demands,
                            const std::set<ValueId>& at_hand, const std::set<ValueId>& whole) {
  Lineariser lineariser(graph, at_hand, whole);
  for (const Demand& demand : demands) {
    if (demand.node >= 0) lineariser.Emit(demand.node);
    if (demand.value >= 0) lineariser.Pull(demand.value);
  }
  return std::move(lineariser).Take();
}

void FuseAddNorm(const Graph& graph, std::vector<Loop>& loops) {
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    if (!IsFusible(loops[i], loops[i + 1])) continue;
    const Node add = loops[i][0];
    Node& norm = loops[i + 1][0];
    STRATA_CHECK(graph.values[add.out[0]].layout == Layout::kRows);
    norm.kind = NodeKind::kAddNorm;
    norm.in = add.in;
    norm.out.insert(norm.out.begin(), add.out[0]);
    norm.discarded = norm.discarded << 1 | add.discarded;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::vector<ValueId> StreamedIn(const Graph& graph, const Loop& loop) {
  std::vector<ValueId> streamed;
  for (const Node& node : loop) {
    for (const ValueId out : node.out) {
      if (graph.values[out].streamed) streamed.push_back(out);
    }
  }
  return streamed;
}

void WidenStreamed(const Graph& graph, std::vector<Loop>& loops) {
  const auto is_lone = [](const Loop& loop) {
    return loop.size() == 1 && RuleOf(loop[0].kind).by_rows();
  };
  for (size_t i = 0; i < loops.size(); ++i) {
    if (StreamedIn(graph, loops[i]).empty()) continue;
    while (i > 0 && is_lone(loops[i - 1]) && loops[i][0].kind != NodeKind::kRedistribute &&
           Reads(loops[i], loops[i - 1][0])) {
      loops[i].insert(loops[i].begin(), loops[i - 1][0]);
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(--i));
    }
    while (i + 1 < loops.size() && is_lone(loops[i + 1]) &&
           loops[i].back().kind != NodeKind::kRedistribute &&
           std::any_of(loops[i].begin(), loops[i].end(),
                       [&](const Node& maker) { return Reads(loops[i + 1][0], maker); })) {
      loops[i].push_back(loops[i + 1][0]);
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
}

}  // namespace strata::model
