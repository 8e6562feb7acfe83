#include "model/saved_values.h"

#include <utility>

#include "model/families/llama.h"
#include "model/passes/differentiate.h"

namespace strata::model {

std::vector<SavedValue> SavableValues(const ModelSpec& spec, int64_t sequence) {
  ModelGraph model = LlamaGraph(spec, 1);
  for (const ModelLayer& layer : model.layers) {
    if (layer.block < 0) continue;
    Graph block = std::move(model.graphs[layer.graph]);
    Differentiate(block);
    return DescribeSavable(block, sequence);
  }
  return {};
}

const std::vector<std::string>& NamesOfSavableValues() {
  static const auto& names = *[] {
    ModelSpec any;
    any.layers = any.hidden = any.heads = any.kv_heads = any.head_size = any.ffn = any.vocab = 1;
    auto* const list = new std::vector<std::string>;
    for (const SavedValue& value : SavableValues(any)) list->push_back(value.name);
    return list;
  }();
  return names;
}

}  // namespace strata::model
