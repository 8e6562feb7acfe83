#include "model/families/llama.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/emit/check.h"
#include "model/families/llama_dims.h"

namespace strata::model {
namespace {

using program::Layer;
using program::LayerGraph;
using program::LayerTemplates;
using program::Role;

absl::Status CheckDivides(const char* name, int64_t divisor, int64_t value) {
  if (value % divisor == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor degree and chunks: ", divisor,
                                                 " does not divide ", name, " (", value, ")"));
}

absl::Status CheckOptions(const ModelSpec& spec, const EmitOptions& options) {
  constexpr int64_t kMostRows = int64_t{1} << 30;
  if (options.micro_batch < 1 || options.sequence < 1 || options.tensor_degree < 1 ||
      options.tensor_chunks < 1 || options.set_ranges < 1 || options.prefill_chunk < 0 ||
      options.head_chunk_rows < 0 || options.threads < 1) {
    return absl::InvalidArgumentError("emit options: sizes must be positive");
  }
  if (options.sequence > spec.context || options.prefill_chunk > kMostRows) {
    return absl::InvalidArgumentError(absl::StrCat("train.sequence: ", options.sequence,
                                                   " exceeds model.context (", spec.context, ")"));
  }
  if (options.micro_batch > kMostRows / options.sequence) {
    return absl::InvalidArgumentError("train.micro_batch: more than 2^30 tokens in a pass");
  }
  const int64_t t = options.tensor_degree;
  if (t == 1) return absl::OkStatus();
  RETURN_IF_ERROR(CheckDivides("heads", t, spec.heads));
  RETURN_IF_ERROR(CheckDivides("kv_heads", t, spec.kv_heads));
  RETURN_IF_ERROR(CheckDivides("ffn", t, spec.ffn));
  RETURN_IF_ERROR(CheckDivides("vocab", t, spec.vocab));
  return CheckDivides("tokens of a pass", t * options.tensor_chunks,
                      options.micro_batch * options.sequence);
}

int Append(LayerGraph& graph, program::Template added) {
  graph.templates.push_back(std::move(added));
  return static_cast<int>(graph.templates.size()) - 1;
}

int AppendSet(LayerGraph& graph, program::ParameterSet added) {
  graph.sets.push_back(std::move(added));
  return static_cast<int>(graph.sets.size()) - 1;
}

LayerTemplates EmbeddingTemplates(LayerGraph& graph, const LlamaDims& dims, bool decodes) {
  LayerTemplates templates;
  templates.forward = Append(graph, EmitEmbedding(dims, Pass::kForward));
  templates.backward = Append(graph, EmitEmbeddingBackward(dims, Role::kGradientStream));
  if (dims.options.split_backward) {
    templates.backward_weight = Append(graph, EmitEmbeddingBackward(dims, Role::kOutputGradient));
  }
  templates.evaluate = templates.forward;
  if (decodes) {
    templates.prefill = Append(graph, EmitEmbedding(dims, Pass::kPrefill));
    templates.decode = Append(graph, EmitEmbedding(dims, Pass::kDecode));
  }
  return templates;
}

LayerTemplates BlockTemplates(LayerGraph& graph, const LlamaDims& dims, bool decodes) {
  LayerTemplates templates;
  templates.forward = Append(graph, EmitBlock(dims, Pass::kForward));
  templates.backward = Append(graph, EmitBlockBackward(dims));
  if (dims.options.split_backward) {
    templates.backward_input = Append(graph, EmitBlockBackwardInput(dims));
    templates.backward_weight = Append(graph, EmitBlockBackwardWeight(dims));
  }
  templates.evaluate = Append(graph, EmitBlock(dims, Pass::kEvaluate));
  if (decodes) {
    templates.prefill = Append(graph, EmitBlock(dims, Pass::kPrefill));
    templates.decode = Append(graph, EmitBlock(dims, Pass::kDecode));
  }
  return templates;
}

LayerTemplates HeadTemplates(LayerGraph& graph, const LlamaDims& dims, bool decodes) {
  LayerTemplates templates;
  templates.backward = Append(graph, EmitHead(dims, true));
  templates.evaluate = Append(graph, EmitHead(dims, false));
  if (decodes) {
    templates.prefill = Append(graph, EmitHeadLogits(dims, Pass::kPrefill));
    templates.decode = Append(graph, EmitHeadLogits(dims, Pass::kDecode));
  }
  return templates;
}

void AppendLayers(LayerGraph& graph, const LlamaDims& dims) {
  const bool decodes = dims.degree == 1 && dims.options.prefill_chunk > 0;
  const int table = AppendSet(graph, TableSet(dims, "embedding", "model.embed_tokens.weight"));
  graph.layers.push_back({"embedding", EmbeddingTemplates(graph, dims, decodes), {table}, 0});
  const LayerTemplates block = BlockTemplates(graph, dims, decodes);
  for (int64_t i = 0; i < dims.spec.layers; ++i) {
    Layer layer{absl::StrCat("layers.", i), block, {}, decodes ? 2 * dims.cache_half : 0};
    for (program::ParameterSet& set : BlockSets(dims, i)) {
      layer.sets.push_back(AppendSet(graph, std::move(set)));
    }
    graph.layers.push_back(std::move(layer));
  }
  Layer head{"head", HeadTemplates(graph, dims, decodes), {}, 0};
  head.sets.push_back(AppendSet(graph, FinalNormSet(dims)));
  head.sets.push_back(dims.spec.tied_embeddings
                          ? table
                          : AppendSet(graph, TableSet(dims, "lm_head", "lm_head.weight")));
  graph.layers.push_back(std::move(head));
}

}  // namespace

int64_t RopeTableRows(const ModelSpec& spec, const EmitOptions& options) {
  return spec.context + options.prefill_chunk;
}

absl::StatusOr<LayerGraph> EmitLlama(const ModelSpec& spec, const EmitOptions& options) {
  RETURN_IF_ERROR(Validate(spec));
  RETURN_IF_ERROR(CheckOptions(spec, options));
  if (spec.family != Family::kLlama) {
    return absl::InvalidArgumentError("model.family: not llama");
  }
  const LlamaDims dims = MakeDims(spec, options);
  LayerGraph graph;
  graph.micro_batch = options.micro_batch;
  graph.sequence = options.sequence;
  graph.boundary_bytes = graph.tokens() / dims.degree * dims.hidden * 4;
  graph.logits_bytes = spec.vocab * 4;
  graph.constants.push_back({"rope", dims.table_bytes});
  AppendLayers(graph, dims);
  RETURN_IF_ERROR(CheckGraph(graph));
  return graph;
}

}  // namespace strata::model
