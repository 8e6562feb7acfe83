// Where values lie while a graph's nodes become a template's ops, and which rows of them are at
// work. Passes place values and move the window of rows; rules (node_rule.h) read views of it.
#ifndef STRATA_MODEL_GRAPH_EMITTER_H_
#define STRATA_MODEL_GRAPH_EMITTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/emit/ops.h"
#include "model/emit/template_builder.h"
#include "model/graph/graph.h"
#include "program/ir/context_rows.h"

namespace strata::model {

// Sizes of a template that its graph leaves open.
struct PassShape {
  int64_t batch = 1;     // B
  int64_t sequence = 1;  // T; of a context group's rank, the rows of a sequence that it has
  int64_t degree = 1;    // of the tensor group
  int64_t context_ranks = 1;
  program::ContextMethod context_method = program::ContextMethod::kRing;
  int64_t chunks = 1;         // into which collectives of the tensor group are cut
  int64_t streamed_rows = 0;  // rows of streamed values that exist at once; 0: by their bytes
  int64_t context = 0;        // positions that a decode cache holds
  int64_t constant_rows = 0;  // of the rotary table
  ops::Backend backend = {};
  bool decodes = false;  // rows continue a sequence: kScalars has their position, kCache its past

  int64_t rows() const { return batch * sequence; }  // N
  program::Group group() const {
    return degree == 1 ? program::Group::kNone : program::Group::kTensor;
  }
};

// Where a weight lies in its layer's sets.
struct WeightPlace {
  int set = 0;  // position in Layer::sets
  std::string set_name;
  program::DType type = program::DType::kF32;
  int64_t set_bytes = 0, gradient_bytes = 0;  // of the set
  int64_t offset = 0, elements = 0;
  // What a quantised weight is made of, in order: of NF4 its logical tensors, which lie apart, of
  // int8 one piece with rows.
  struct Piece {
    int64_t offset = 0, elements = 0;
    int64_t scales = 0, rows = 0;  // where the rows' scales lie, and how many
  };
  std::vector<Piece> quantised;
};

// Bytes of a decode cache's keys, or values: whole cache lines.
int64_t CacheHalfBytes(int64_t context, int64_t kv_heads, int64_t head_size, program::DType type);

class Emitter {
 public:
  Emitter(const Graph& graph, const PassShape& shape, const std::vector<WeightPlace>& weights,
          const std::string& name);

  TemplateBuilder& builder() { return builder_; }
  const Graph& graph() const { return graph_; }
  const PassShape& shape() const { return shape_; }

  // The window: rows [first, first + count) of the pass's N.
  void SetRows(int64_t first, int64_t count);
  // What was dequantised before is no longer needed.
  void BeginLoop() { dequantised_.clear(); }
  int64_t rows() const { return rows_; }
  // Of the window, as this rank holds the value.
  int64_t rows(ValueId value) const { return rows_ / Split(value); }
  int64_t width(ValueId value) const { return graph_.width(value); }
  int64_t first() const { return first_; }

  // `view` holds the value from row `origin` of the pass on.
  void Place(ValueId value, const View& view, int64_t origin) { places_[value] = {view, origin}; }
  bool placed(ValueId value) const { return places_.contains(value); }
  View In(const Node& node, size_t index) const { return Of(node.in[index]); }
  // Empty where the node has no such input.
  View InOrNone(const Node& node, size_t index) const {
    return index < node.in.size() ? In(node, index) : View{};
  }
  // A scratch of the window's size when the output is discarded.
  View Out(const Node& node, size_t index);
  View Of(ValueId value) const;  // its rows in the window

  // A quantised one is dequantised once per loop.
  View Weight(const Node& node) { return Weight(node.weight); }
  View Weight(WeightId weight);
  // f32, whatever the weight is. Of a frozen weight: a scratch of zeros.
  View Gradient(const Node& node) { return Gradient(node.weight); }
  View Gradient(WeightId weight);
  View Scalars();
  View Loss();
  // One per name and size in the template; what is in it does not outlive the window.
  View Scratch(const std::string& name, int64_t elements,
               program::DType type = program::DType::kF32);

  program::Template Finish() && { return std::move(builder_).Finish(); }

 private:
  View Dequantised(const WeightPlace& place, const View& set, const std::string& name);

  struct Placed {
    View view;
    int64_t origin = 0;
  };

  int64_t Split(ValueId value) const {
    return graph_.values[value].layout == Layout::kRows ? shape_.degree : 1;
  }

  const Graph& graph_;
  const PassShape shape_;
  const std::vector<WeightPlace>& weights_;
  TemplateBuilder builder_;
  int64_t first_ = 0, rows_ = 0;
  std::map<ValueId, Placed> places_;
  std::map<std::string, View> scratch_;
  std::map<WeightId, View> dequantised_;
};

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_EMITTER_H_
