#include "model/passes/lower.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/units.h"
#include "model/graph/node_rule.h"
#include "model/passes/alias.h"

namespace strata::model {
namespace {

using program::Group;
using program::SlotClass;

// Streamed values of one chunk, when the shape leaves it open; at least this many rows (fewer, and
// the table's gradient, which is read and written once per chunk, would bound the head).
constexpr int64_t kStreamedBytes = 16 * common::kMiB;
// On an H200 the product of some 750 rows takes as long as 8 bytes of the gradient's elements.
constexpr int64_t kSmallestChunk = 256, kSmallestCudaChunk = 2048;

bool Gathers(const Graph& graph, const Node& node) {
  return node.kind == NodeKind::kRedistribute && graph.values[node.in[0]].layout == Layout::kRows;
}

// What a collective is cut into: two buffers of a chunk's rows, by turns.
struct Turns {
  Node node;
  ValueId value = -1;  // that lies in the buffers: a gather's output, a reduction's input
  std::array<View, 2> buffers;
  View scratch;  // of a reduction
};

class Lowering {
 public:
  Lowering(const Graph& graph, const PassShape& shape, const std::vector<WeightPlace>& weights,
           const std::string& name, const std::vector<Loop>& loops, const Bindings& bindings)
      : graph_(graph),
        loops_(loops),
        bindings_(bindings),
        aliases_(loops, bindings),
        e_(graph, shape, weights, name) {}

  program::Template Run() {
    for (size_t i = 0; i < loops_.size(); ++i) EmitLoop(i);
    return std::move(e_).Finish();
  }

 private:
  // Bytes of the rows that this rank holds of `rows` of the pass.
  int64_t Bytes(ValueId value, int64_t rows) const {
    const bool by_rows = graph_.values[value].layout == Layout::kRows;
    const int64_t held = rows / (by_rows ? e_.shape().degree : 1);
    return program::BytesOf(graph_.values[value].type, held * graph_.width(value));
  }
  // Where a value, or what shares its bytes, lies: a formal, or a local for `rows` rows.
  const View& Base(ValueId value, int64_t rows);
  // Values of a loop with streamed ones that are made and read in it alone.
  std::set<ValueId> OwnOf(size_t loop) const;
  int64_t ChunkRows(const std::set<ValueId>& own, int64_t rows) const;
  Turns MakeTurns(const Node& node, int64_t chunk_rows);
  void Gather(const Turns& turns, int64_t chunk, int64_t chunk_rows);
  void Scatter(const Turns& turns, int64_t chunk, int64_t chunk_rows);
  void EmitLoop(size_t loop);
  void EmitChunk(const Loop& loop, const std::set<ValueId>& own, int64_t first, int64_t rows,
                 int64_t step);
  void EmitNode(const Node& node);

  const Graph& graph_;
  const std::vector<Loop>& loops_;
  const Bindings& bindings_;
  const Aliases aliases_;
  Emitter e_;
  std::map<ValueId, View> bases_;
};

const View& Lowering::Base(ValueId value, int64_t rows) {
  const ValueId shared = aliases_.Of(value);
  const auto [found, added] = bases_.try_emplace(shared);
  if (!added) return found->second;
  const auto bound = bindings_.find(shared);
  if (bound == bindings_.end()) {
    STRATA_CHECK(graph_.values[value].producer >= 0);
    found->second = e_.builder().Local(graph_.values[value].name, Bytes(value, rows));
  } else {
    const Binding& binding = bound->second;
    found->second =
        e_.builder().Formal(binding.role, binding.index, Bytes(value, rows), binding.name);
  }
  return found->second;
}

std::set<ValueId> Lowering::OwnOf(size_t loop) const {
  const auto is_own = [&](ValueId value) {
    return !bindings_.contains(aliases_.Of(value)) && aliases_.LoopsOf(value) == std::set{loop} &&
           graph_.values[value].layout != Layout::kPartial;
  };
  const std::vector<ValueId> streamed = StreamedIn(graph_, loops_[loop]);
  std::set<ValueId> own;
  if (std::none_of(streamed.begin(), streamed.end(), is_own)) return own;
  for (const Node& node : loops_[loop]) {
    if (node.kind == NodeKind::kRedistribute) continue;
    std::copy_if(node.out.begin(), node.out.end(), std::inserter(own, own.end()), is_own);
  }
  return own;
}

int64_t Lowering::ChunkRows(const std::set<ValueId>& own, int64_t rows) const {
  int64_t widest = 0;
  for (const ValueId value : own) {
    if (graph_.values[value].streamed) widest = std::max(widest, graph_.width(value));
  }
  if (widest == 0) return rows;
  int64_t most = e_.shape().streamed_rows;
  if (most == 0) {
    most = std::max(e_.shape().backend.on_cuda() ? kSmallestCudaChunk : kSmallestChunk,
                    kStreamedBytes / program::BytesOf(graph_.type, widest));
  }
  // Chunks of nearly the same size rather than a small last one.
  const int64_t chunks = common::CeilDivide(rows, most);
  return std::min(most, common::RoundUp(common::CeilDivide(rows, chunks), 16));
}

Turns Lowering::MakeTurns(const Node& node, int64_t chunk_rows) {
  const bool gathers = Gathers(graph_, node);
  Turns turns{node, gathers ? node.out[0] : node.in[0], {}, {}};
  const std::string& name = graph_.values[turns.value].name;
  const int64_t bytes = Bytes(turns.value, chunk_rows);
  const int64_t buffers = std::min<int64_t>(2, e_.shape().chunks);
  for (int64_t i = 0; i < buffers; ++i) {
    turns.buffers[i] = e_.builder()
                           .Local(absl::StrCat(name, gathers ? " gathered" : " partial"), bytes,
                                  SlotClass::kCommunication)
                           .As(graph_.type);
    if (!gathers) turns.buffers[i].partial = program::PartialOver(Group::kTensor);
  }
  if (!gathers) {
    turns.scratch = e_.builder().Local(absl::StrCat(name, " scratch"),
                                       ReduceScatterScratchBytes(bytes, e_.shape().degree),
                                       SlotClass::kCommunication);
  }
  return turns;
}

void Lowering::Gather(const Turns& turns, int64_t chunk, int64_t chunk_rows) {
  e_.SetRows(chunk * chunk_rows, chunk_rows);
  AllGather(e_.builder(), Group::kTensor, e_.In(turns.node, 0), turns.buffers[chunk % 2]);
}

void Lowering::Scatter(const Turns& turns, int64_t chunk, int64_t chunk_rows) {
  e_.SetRows(chunk * chunk_rows, chunk_rows);
  ReduceScatter(e_.builder(), Group::kTensor, turns.buffers[chunk % 2], e_.Out(turns.node, 0),
                turns.scratch);
}

void Lowering::EmitNode(const Node& node) {
  const NodeRule& rule = RuleOf(node.kind);
  const int in_place = rule.in_place(node);
  if (in_place >= 0 && aliases_.NeedsCopy(node)) {
    Copy(e_.builder(), e_.Out(node, 0), e_.In(node, in_place));
  }
  rule.Lower(e_, node);
}

void Lowering::EmitChunk(const Loop& loop, const std::set<ValueId>& own, int64_t first,
                         int64_t rows, int64_t step) {
  for (int64_t done = 0; done < rows; done += step) {
    for (const ValueId value : own) e_.Place(value, Base(value, step), first + done);
    e_.SetRows(first + done, std::min(step, rows - done));
    for (const Node& node : loop) {
      if (node.kind != NodeKind::kRedistribute) EmitNode(node);
    }
  }
}

void Lowering::EmitLoop(size_t index) {
  e_.BeginLoop();
  const Loop& loop = loops_[index];
  const auto is_moved = [](const Node& node) { return node.kind == NodeKind::kRedistribute; };
  const int64_t chunks = std::any_of(loop.begin(), loop.end(), is_moved) ? e_.shape().chunks : 1;
  const int64_t chunk_rows = e_.shape().rows() / chunks;
  const std::set<ValueId> own = OwnOf(index);
  std::vector<Turns> gathers, scatters;
  std::set<ValueId> brief = own;
  for (const Node& node : loop) {
    if (!is_moved(node)) continue;
    std::vector<Turns>& kind = Gathers(graph_, node) ? gathers : scatters;
    kind.push_back(MakeTurns(node, chunk_rows));
    brief.insert(kind.back().value);
  }
  for (const Node& node : loop) {
    for (const ValueId in : node.in) {
      if (!brief.contains(in)) e_.Place(in, Base(in, e_.shape().rows()), 0);
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId out = node.out[i];
      const bool discarded = (node.discarded >> i & 1) != 0;
      if (!discarded && !brief.contains(out)) e_.Place(out, Base(out, e_.shape().rows()), 0);
    }
  }
  const auto gather = [&](int64_t chunk) {
    for (const Turns& turns : gathers) Gather(turns, chunk, chunk_rows);
  };
  gather(0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) gather(chunk + 1);
    for (const std::vector<Turns>* kind : {&gathers, &scatters}) {
      for (const Turns& turns : *kind) {
        e_.Place(turns.value, turns.buffers[chunk % 2], chunk * chunk_rows);
      }
    }
    EmitChunk(loop, own, chunk * chunk_rows, chunk_rows, ChunkRows(own, chunk_rows));
    for (const Turns& turns : scatters) Scatter(turns, chunk, chunk_rows);
  }
}

}  // namespace

program::Template Lower(const Graph& graph, const PassShape& shape,
                        const std::vector<WeightPlace>& weights, const std::string& name,
                        const std::vector<Loop>& loops, const Bindings& bindings) {
  return Lowering(graph, shape, weights, name, loops, bindings).Run();
}

}  // namespace strata::model
