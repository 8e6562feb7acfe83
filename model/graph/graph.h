// A layer as its forward: values, and the nodes that make them of other values and weights. The
// backward is nodes of the same graph (passes/differentiate.h), so every pass sees one kind of
// thing. Families build graphs through nodes.h; what each kind of node means, its derivative, its
// cost and its ops are its rule's (node_rule.h).
//
// A value is [N, width]: one row per token of a pass, N = B·T, of the graph's type of numbers but
// for statistics (f32) and what is counted (i32). Which rows and columns of it a rank of a tensor
// group of `degree` ranks holds is its layout (Megatron-LM, Shoeybi et al., 2019, §3, with the
// sequence parallelism of Korthikanti et al., 2022, §4.2.2). Nodes ask for the layouts they need
// when they are added; where a value has another, a Redistribute node is put between, once per
// value and layout. With degree 1 all layouts are the same and there are none.
//
// Collectives are cut into chunks, so that one is on its way while another is multiplied. The N
// rows are `chunks` blocks, and each rank holds its part of every block: rank r of t holds rows
// i·N/chunks + r·N/(chunks·t) + [0, N/(chunks·t)) of each block i, block after block. So gathering
// chunk i gives block i with its rows in order.
#ifndef STRATA_MODEL_GRAPH_GRAPH_H_
#define STRATA_MODEL_GRAPH_GRAPH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/activation.h"
#include "program/ir/parameter_set.h"
#include "program/ir/template.h"

namespace strata::model {

using ValueId = int;
using NodeId = int;
using WeightId = int;

enum class Layout : uint8_t {
  kRows,     // this rank's N / degree rows, whole
  kColumns,  // all rows, this rank's share of the columns (program::ShareOf)
  kWhole,    // all rows and columns, the same on every rank
  kPartial,  // all rows and columns, of which the ranks' sum is meant
};

struct Value {
  std::string name;  // stable and public: users save values by it
  int64_t width = 0;
  Layout layout = Layout::kRows;
  program::DType type = program::DType::kF32;
  bool streamed = false;                      // exists for a chunk of rows at a time (logits)
  program::Role given = program::Role::kAny;  // where it comes from when no node makes it
  NodeId producer = -1;
};

enum class NodeKind : uint8_t {
  kEmbed,
  kEmbedGradient,
  kPositions,
  kPositionsGradient,
  kNorm,
  kNormReplay,
  kAddNorm,
  kNormBackward,
  kHeadNorm,
  kHeadNormReplay,
  kHeadNormBackward,
  kLinear,
  kLinearInputGradient,
  kLinearWeightGradient,
  kBias,
  kBiasGradient,
  kRope,
  kAttention,
  kAttentionBackward,
  kGlu,
  kGluBackward,
  kActivate,
  kActivateBackward,
  kSoftcap,
  kAdd,
  kScale,
  kAdapt,
  kAdaptInputGradient,
  kAdaptWeightGradient,
  kLoss,
  kLossBackward,
  kRedistribute,
};

// What one adapter adds to: `rows` of its B make as many columns from `column` on, of a whole
// output (of weights shared by ranks: of the columns that a rank makes, `column` in units of all
// ranks'), reading the numbers of h at `first`.
struct AdaptedColumns {
  int64_t rows = 0;
  int64_t column = 0;
  int64_t first = 0;
};

using ops::Function;  // of gates and activations

// What nodes have beside values and weights; each kind uses its own.
struct Attributes {
  int64_t heads = 0, kv_heads = 0, head_size = 0;  // kRope, kAttention*, kHeadNorm*
  bool inverse = false;                            // kRope: turns back
  int table = 0;                                   // kRope: its constant's index
  int64_t rotary = 0;                              // kRope: elements of a head that turn; 0: all
  int64_t window = 0;                              // kAttention*: rows that a row sees; 0: all
  double score_scale = 0;                          // kAttention*; 0: 1 / √head_size
  double softcap = 0;                              // kAttention*, kSoftcap, kLoss*; 0: none
  double epsilon = 0;                              // norms
  bool plus_one = false;                           // norms: the weight is 1 + w
  double scale = 1;                                // kEmbed*, kScale
  Function function = Function::kSilu;             // kGlu*, kActivate*
  std::vector<AdaptedColumns> adapted;             // kAdapt*
};

// Which pass of a split backward a node belongs to (zero-bubble schedules, Qi et al., 2023).
enum class Phase : uint8_t { kForward, kInput, kWeight };

struct Node {
  NodeKind kind = NodeKind::kAdd;
  std::vector<ValueId> in, out;
  WeightId weight = -1;
  Attributes attributes;
  Phase phase = Phase::kForward;
  uint32_t discarded = 0;  // bit i: out[i] is at hand already, this copy of it goes nowhere
  // Linear and bias nodes: rows behind the weight's, see LinearWithShared. Norms: the bias that
  // makes one a layer norm; head norms: the keys' weight.
  WeightId second = -1;
};

// A tensor that a layer uses. Names stand behind the layer's prefix; sizes are the whole tensor's.
struct Weight {
  program::TensorSpec tensor;
  int cut = -1;     // the dimension that a tensor group cuts; -1: whole on every rank
  std::string set;  // "" or ".suffix": behind the layer's name; else the set's own name
  bool trainable = true;
  std::optional<program::DType> quantised;  // the type that it is kept in; dequantised before use

  int64_t rows() const { return tensor.shape[0]; }
  int64_t columns() const { return tensor.shape.size() > 1 ? tensor.shape[1] : 1; }
};

class Graph {
 public:
  Graph(std::string name, int64_t degree, program::DType type = program::DType::kF32)
      : name(std::move(name)), degree(degree), type(type) {}

  std::string name;  // of the kind of layer: embedding, block, head
  int64_t degree = 1;
  program::DType type = program::DType::kF32;  // that it computes in; weights have it too
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Weight> weights;
  NodeId forward_nodes = 0;  // the first ones are the forward; set by Differentiate
  // -1 where a layer has none. Of input and output: kRows.
  ValueId input = -1, output = -1, logits = -1;
  ValueId output_gradient = -1, input_gradient = -1;

  // Tokens, targets and positions are i32.
  ValueId Given(std::string value, int64_t width, Layout layout, program::Role role);
  ValueId Make(std::string value, int64_t width, Layout layout);
  // The same of f32, whatever the graph computes in.
  ValueId MakeStatistic(std::string value, int64_t width, Layout layout);
  WeightId Use(Weight weight);
  NodeId Add(Node node);  // the producer of its `out`
  // The value in this layout: itself, or what a Redistribute node makes of it.
  ValueId As(ValueId value, Layout layout);

  // Of this rank's cut.
  int64_t width(ValueId value) const {
    const int64_t whole = values[value].width;
    return values[value].layout == Layout::kColumns ? program::ShareOf(whole, degree) : whole;
  }
  // Behind a Redistribute node, what it redistributes.
  ValueId Source(ValueId value) const;
  // What to keep of a value: behind a gather what was gathered, but a sum rather than its parts.
  ValueId Kept(ValueId value) const;
  // Whether one of the node's weights does.
  bool Trains(const Node& node) const {
    return weights[node.weight].trainable || (node.second >= 0 && weights[node.second].trainable);
  }
  bool IsForward(ValueId value) const {
    return values[value].producer >= 0 && values[value].producer < forward_nodes;
  }

 private:
  std::map<std::pair<ValueId, Layout>, ValueId> redistributed_;
};

}  // namespace strata::model

#endif  // STRATA_MODEL_GRAPH_GRAPH_H_
