#include "tests/parity/model_reference.h"

#include <algorithm>
#include <memory>

#include "common/check.h"
#include "model/families/families.h"
#include "model/graph/reference.h"
#include "model/initialize.h"
#include "model/passes/differentiate.h"
#include "model/rope_table.h"

namespace strata::testing {
namespace {

using model::Graph;
using model::ModelLayer;
using model::Reference;
using Numbers = Reference::Numbers;

// One layer at work; the graph outlives it.
struct LayerAtWork {
  const ModelLayer& layer;
  const Graph& graph;
  Reference reference;
};

// Calls body(name, first element in the weight, elements) for each part of a weight.
template <typename Body>
void ForParts(const ModelLayer& layer, const model::Weight& weight, const Body& body) {
  int64_t first = 0;
  for (int part = 0; part < weight.tensor.part_count(); ++part) {
    int64_t elements = 1;
    for (const int64_t extent : weight.tensor.logical_shape(part)) elements *= extent;
    body(layer.prefix + weight.tensor.logical_name(part), first, elements);
    first += elements;
  }
}

void Give(const Graph& graph, program::Role role, const std::vector<int32_t>& values,
          Reference& reference) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].given == role) {
      std::copy(values.begin(), values.end(), reference.values[v].begin());
    }
  }
}

}  // namespace

NamedTensors InitialWeights(const model::ModelSpec& spec, uint64_t seed) {
  model::EmitOptions emit;
  emit.prefill_chunk = 0;
  auto graph = model::EmitFamily(spec, emit);
  STRATA_CHECK(graph.ok());
  NamedTensors named;
  for (const program::ParameterSet& set : graph->sets) {
    std::vector<float> flat(set.elements);
    model::FillInitial(set, seed, 0, absl::MakeSpan(flat));
    for (const program::ElementRun& run : ElementRuns(set, 0, 0, set.elements)) {
      std::vector<double>& tensor = named[set.tensors[run.tensor].logical_name(run.part)];
      tensor.resize(std::max<size_t>(tensor.size(), run.first + run.count));
      std::copy_n(flat.begin() + run.flat, run.count, tensor.begin() + run.first);
    }
  }
  return named;
}

ModelGradients GradientsOf(const model::ModelSpec& spec, const NamedTensors& weights,
                           int64_t sequence, const std::vector<int32_t>& tokens,
                           const std::vector<int32_t>& targets,
                           const std::vector<int32_t>& positions) {
  model::ModelGraph model = model::ForwardOf(spec, {.documents = !positions.empty()});
  for (Graph& graph : model.graphs) model::Differentiate(graph);
  const int64_t batch = static_cast<int64_t>(tokens.size()) / sequence;
  std::vector<std::unique_ptr<LayerAtWork>> layers;
  for (const ModelLayer& layer : model.layers) {
    const Graph& graph = model.graphs[layer.graph];
    layers.push_back(std::make_unique<LayerAtWork>(
        LayerAtWork{layer, graph, Reference(graph, batch, sequence)}));
    Reference& reference = layers.back()->reference;
    for (const model::ModelConstant& constant : model.constants) {
      const bool local = constant.name == model::kLocalRopeTable;
      reference.tables.push_back(model::AnglesOf(spec, local, model::IsExtended(spec, sequence)));
    }
    for (size_t w = 0; w < graph.weights.size(); ++w) {
      ForParts(layer, graph.weights[w], [&](const std::string& name, int64_t first, int64_t count) {
        std::copy_n(weights.at(name).begin(), count, reference.weights[w].begin() + first);
      });
    }
    Give(graph, program::Role::kTokens, tokens, reference);
    Give(graph, program::Role::kTargets, targets, reference);
    Give(graph, program::Role::kPositions, positions, reference);
  }
  ModelGradients result;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& [layer, graph, reference] = *layers[i];
    if (i > 0) {
      const LayerAtWork& below = *layers[i - 1];
      reference.values[graph.input] = below.reference.values[below.graph.output];
    }
    reference.Forward();
    result.loss += reference.loss;
  }
  const double rows = static_cast<double>(tokens.size());
  result.loss /= rows;
  for (size_t i = layers.size(); i-- > 0;) {
    auto& [layer, graph, reference] = *layers[i];
    if (i + 1 < layers.size()) {
      const LayerAtWork& above = *layers[i + 1];
      reference.values[graph.output_gradient] = above.reference.values[above.graph.input_gradient];
    }
    reference.Backward();
    for (size_t w = 0; w < graph.weights.size(); ++w) {
      ForParts(layer, graph.weights[w], [&](const std::string& name, int64_t first, int64_t count) {
        std::vector<double>& sum = result.gradients[name];
        sum.resize(count);
        for (int64_t e = 0; e < count; ++e) {
          sum[e] += reference.weight_gradients[w][first + e] / rows;
        }
      });
    }
  }
  return result;
}

}  // namespace strata::testing
