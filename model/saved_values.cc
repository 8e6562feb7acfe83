#include "model/saved_values.h"

namespace strata::model {

std::vector<SavedValue> SavableValues(const ModelSpec& spec) {
  constexpr int64_t kFloat = 4;
  const int64_t queries = spec.heads * spec.head_size, keys = spec.kv_heads * spec.head_size;
  return {
      {"qkv", (queries + 2 * keys) * kFloat},  // after rotation
      {"attention", queries * kFloat},
      {"log_sum_exp", spec.heads * kFloat},
      {"residual", spec.hidden * kFloat},  // between attention and feed-forward
      {"gate_up", 2 * spec.ffn * kFloat},
      {"rstd1", kFloat},
      {"rstd2", kFloat},
  };
}

const std::vector<std::string>& NamesOfSavableValues() {
  static const auto& names = *[] {
    auto* const list = new std::vector<std::string>;
    for (const SavedValue& value : SavableValues(ModelSpec())) list->push_back(value.name);
    return list;
  }();
  return names;
}

}  // namespace strata::model
