#include "model/passes/emit_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/emit/check.h"
#include "model/passes/differentiate.h"
#include "model/passes/layer_templates.h"
#include "model/passes/lora.h"
#include "model/passes/weights.h"

namespace strata::model {
namespace {

using program::LayerGraph;
using program::LayerTemplates;

absl::Status CheckDivides(const char* name, int64_t divisor, int64_t value) {
  if (value % divisor == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor degree and chunks: ", divisor,
                                                 " does not divide ", name, " (", value, ")"));
}

absl::Status CheckContext(const ModelSpec& spec, const EmitOptions& options) {
  const int64_t n = options.context_ranks, t = options.tensor_degree;
  if (n == 1) return absl::OkStatus();
  if (options.sequence % (2 * n) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "context: twice its ", n, " ranks do not divide train.sequence (", options.sequence, ")"));
  }
  if (options.context_method != program::ContextMethod::kAllToAll) return absl::OkStatus();
  const int64_t heads = spec.heads / t, kv_heads = std::max<int64_t>(1, spec.kv_heads / t);
  if (heads % n == 0 && (kv_heads % n == 0 || n % kv_heads == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("context: ", heads, " heads and ", kv_heads,
                                                 " kv_heads of a rank do not go to ", n, " ranks"));
}

LayerShapes ShapesOf(const ModelSpec& spec, const EmitOptions& options) {
  LayerShapes shapes;
  shapes.train.batch = options.micro_batch;
  shapes.train.sequence = options.sequence / options.context_ranks;
  shapes.train.context_ranks = options.context_ranks;
  shapes.train.context_method = options.context_method;
  shapes.train.degree = options.tensor_degree;
  shapes.train.chunks = options.tensor_degree == 1 ? 1 : options.tensor_chunks;
  shapes.train.streamed_rows = options.head_chunk_rows;
  shapes.train.context = spec.context;
  shapes.train.constant_rows = RopeTableRows(spec, options);
  shapes.train.backend = {.kind = options.backend, .threads = options.threads};
  shapes.decodes = options.tensor_degree == 1 && options.context_ranks == 1 &&
                   options.prefill_chunk > 0 && !options.documents;
  shapes.decode = shapes.train;
  shapes.decode.batch = 1;
  shapes.decode.sequence = 1;
  shapes.decode.decodes = true;
  shapes.prefill = shapes.decode;
  shapes.prefill.sequence = std::min(options.prefill_chunk, spec.context);
  return shapes;
}

const Node* FindAttention(const Graph& graph) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.kind == NodeKind::kAttention;
  });
  return found == graph.nodes.end() ? nullptr : &*found;
}

class ModelEmitter {
 public:
  ModelEmitter(const ModelGraph& model, const ModelSpec& spec, const EmitOptions& options)
      : model_(model), spec_(spec), options_(options), shapes_(ShapesOf(spec, options)) {}

  absl::StatusOr<LayerGraph> Run();

 private:
  // Graph, names of the weights that train, whether a layer below trains, whether the recompute
  // plan is its.
  using Key = std::tuple<int, std::vector<std::string>, bool, bool>;

  absl::Status CheckPlans() const;
  absl::Status AppendLayer(const ModelLayer& layer);
  LayerTemplates TemplatesOf(const ModelLayer& layer, const Graph& graph,
                             const std::vector<WeightPlace>& places);
  // The layer's own: with adapters, or what is frozen marked.
  absl::StatusOr<Graph> GraphOf(const ModelLayer& layer) const;
  int SetIndex(program::ParameterSet set);

  const ModelGraph& model_;
  const ModelSpec& spec_;
  const EmitOptions& options_;
  const LayerShapes shapes_;
  LayerGraph result_;
  std::map<Key, LayerTemplates> made_;
  bool trains_below_ = false;
};

absl::Status ModelEmitter::CheckPlans() const {
  const bool adapts = options_.lora.rank > 0;
  if (adapts && !options_.frozen.empty()) {
    return absl::InvalidArgumentError("frozen: with adapters everything else is");
  }
  RETURN_IF_ERROR(adapts ? CheckLora(model_, options_.lora) : CheckFrozen(model_, options_.frozen));
  int64_t blocks = 0;
  std::vector<SavedValue> savable;
  for (const ModelLayer& layer : model_.layers) {
    if (layer.block < 0) continue;
    ++blocks;
    if (!savable.empty()) continue;
    // Names stay names where what is frozen leaves nothing that reads their values.
    Graph graph = model_.graphs[layer.graph];
    if (adapts) {
      ASSIGN_OR_RETURN(graph, GraphOf(layer));
    }
    Differentiate(graph);
    savable = DescribeSavable(graph, options_.sequence);
  }
  return CheckRecompute(options_.recompute, savable, blocks);
}

absl::StatusOr<Graph> ModelEmitter::GraphOf(const ModelLayer& layer) const {
  if (options_.lora.rank > 0) {
    return AddAdapters(model_.graphs[layer.graph], layer, options_.lora);
  }
  Graph graph = model_.graphs[layer.graph];
  RETURN_IF_ERROR(Freeze(graph, layer, options_.frozen));
  return graph;
}

int ModelEmitter::SetIndex(program::ParameterSet set) {
  for (size_t i = 0; i < result_.sets.size(); ++i) {
    if (result_.sets[i].name == set.name) return static_cast<int>(i);
  }
  result_.sets.push_back(std::move(set));
  return static_cast<int>(result_.sets.size()) - 1;
}

LayerTemplates ModelEmitter::TemplatesOf(const ModelLayer& layer, const Graph& graph,
                                         const std::vector<WeightPlace>& places) {
  const bool planned = layer.block >= 0 && options_.recompute.covers(layer.block);
  std::vector<std::string> trains;
  for (const Weight& weight : graph.weights) {
    if (weight.trainable) trains.push_back(weight.tensor.name);
  }
  const auto [found, added] = made_.try_emplace({layer.graph, trains, trains_below_, planned});
  if (added) {
    const LayerVariant variant{trains_below_, planned ? options_.recompute : RecomputePlan{},
                               options_.split_backward};
    found->second = EmitLayer(graph, variant, shapes_, places, result_.templates);
  }
  return found->second;
}

absl::Status ModelEmitter::AppendLayer(const ModelLayer& layer) {
  ASSIGN_OR_RETURN(const Graph graph, GraphOf(layer));
  std::vector<WeightPlace> places;
  program::Layer appended;
  appended.name = layer.name;
  for (program::ParameterSet& set : SetsOf(graph, layer, options_, &places)) {
    appended.sets.push_back(SetIndex(std::move(set)));
  }
  appended.templates = TemplatesOf(layer, graph, places);
  const Node* attention = FindAttention(graph);
  if (attention != nullptr && shapes_.decodes) {
    const Attributes& a = attention->attributes;
    appended.cache_bytes =
        2 * CacheHalfBytes(spec_.context, a.kv_heads, a.head_size, options_.type);
  }
  trains_below_ |= std::any_of(graph.weights.begin(), graph.weights.end(),
                               [](const Weight& weight) { return weight.trainable; });
  result_.layers.push_back(std::move(appended));
  return absl::OkStatus();
}

absl::StatusOr<LayerGraph> ModelEmitter::Run() {
  RETURN_IF_ERROR(CheckPlans());
  result_.micro_batch = options_.micro_batch;
  result_.sequence = shapes_.train.sequence;
  result_.boundary_bytes =
      program::BytesOf(options_.type, result_.tokens() / options_.tensor_degree * spec_.hidden);
  result_.logits_bytes = program::BytesOf(options_.type, spec_.vocab);
  for (const ModelConstant& constant : model_.constants) {
    const int64_t rows = constant.per_row ? result_.tokens() : shapes_.train.constant_rows;
    result_.constants.push_back({constant.name, rows * constant.row_bytes});
  }
  for (const ModelLayer& layer : model_.layers) RETURN_IF_ERROR(AppendLayer(layer));
  RETURN_IF_ERROR(CheckGraph(result_));
  return std::move(result_);
}

}  // namespace

absl::Status CheckOptions(const ModelSpec& spec, const EmitOptions& options) {
  const program::DType type = options.type;
  if (type != program::DType::kF32 && type != program::DType::kBF16 &&
      type != program::DType::kF16) {
    return absl::InvalidArgumentError("emit options: models compute in f32, bf16 or f16");
  }
  constexpr int64_t kMostRows = int64_t{1} << 30;
  if (options.micro_batch < 1 || options.sequence < 1 || options.tensor_degree < 1 ||
      options.tensor_chunks < 1 || options.set_ranges < 1 || options.prefill_chunk < 0 ||
      options.head_chunk_rows < 0 || options.threads < 1 || options.context_ranks < 1) {
    return absl::InvalidArgumentError("emit options: sizes must be positive");
  }
  if (options.sequence > spec.context || options.prefill_chunk > kMostRows) {
    return absl::InvalidArgumentError(absl::StrCat("train.sequence: ", options.sequence,
                                                   " exceeds model.context (", spec.context, ")"));
  }
  if (options.micro_batch > kMostRows / options.sequence) {
    return absl::InvalidArgumentError("train.micro_batch: more than 2^30 tokens in a pass");
  }
  RETURN_IF_ERROR(CheckContext(spec, options));
  const int64_t t = options.tensor_degree;
  if (t == 1) return absl::OkStatus();
  RETURN_IF_ERROR(CheckDivides("heads", t, spec.heads));
  if (t <= spec.kv_heads) {
    RETURN_IF_ERROR(CheckDivides("kv_heads", t, spec.kv_heads));
  } else if (t % spec.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor degree ", t,
                                                   " neither divides kv_heads (", spec.kv_heads,
                                                   ") nor is divided by it"));
  }
  RETURN_IF_ERROR(CheckDivides("ffn", t, spec.ffn));
  return CheckDivides("tokens of a pass", t * options.tensor_chunks,
                      options.micro_batch * options.sequence / options.context_ranks);
}

absl::StatusOr<LayerGraph> EmitModel(const ModelGraph& model, const ModelSpec& spec,
                                     const EmitOptions& options) {
  return ModelEmitter(model, spec, options).Run();
}

int64_t RopeTableRows(const ModelSpec& spec, const EmitOptions& options) {
  if (options.context_ranks > 1 && !options.documents) {
    return options.sequence / options.context_ranks;
  }
  return spec.context + options.prefill_chunk;
}

}  // namespace strata::model
