#include "model/saved_values.h"

#include <algorithm>
#include <utility>

#include "model/families/families.h"
#include "model/family_defaults.h"
#include "model/passes/differentiate.h"

namespace strata::model {

std::vector<SavedValue> SavableValues(const ModelSpec& spec, int64_t sequence) {
  ModelGraph model = ForwardOf(spec, {});
  for (const ModelLayer& layer : model.layers) {
    if (layer.block < 0) continue;
    Graph block = std::move(model.graphs[layer.graph]);
    Differentiate(block);
    return DescribeSavable(block, sequence);
  }
  return {};
}

std::vector<SavedValue> SavableValuesOf(Family family) {
  ModelSpec any = DefaultsOf(family);
  any.layers = any.hidden = any.heads = any.kv_heads = any.head_size = any.ffn = any.vocab = 1;
  return SavableValues(any);
}

std::vector<std::string> NamesOfSavableValues(std::optional<Family> family) {
  const std::vector<Family> families = family ? std::vector<Family>{*family} : AllFamilies();
  std::vector<std::string> names;
  for (const Family each : families) {
    for (const SavedValue& value : SavableValuesOf(each)) {
      const bool is_new = std::find(names.begin(), names.end(), value.name) == names.end();
      if (is_new) names.push_back(value.name);
    }
  }
  return names;
}

}  // namespace strata::model
