#include "model/adapter_names.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace strata::model {
namespace {

constexpr char kWeight[] = ".weight";

// Splits "….c_attn.q" into the module and what its part is called, ".q"; most have no part.
absl::string_view TakePart(absl::string_view& name) {
  constexpr std::array<absl::string_view, 5> kParts = {".q", ".k", ".v", ".gate", ".up"};
  for (const absl::string_view part : kParts) {
    if (absl::ConsumeSuffix(&name, part)) return part;
  }
  return "";
}

}  // namespace

AdapterNames AdapterBeside(const std::string& weight) {
  absl::string_view name = weight;
  absl::ConsumeSuffix(&name, kWeight);
  const absl::string_view part = TakePart(name);
  return {std::string(name), absl::StrCat(name, ".lora_A", kWeight),
          absl::StrCat(name, ".lora_B", part, kWeight)};
}

std::string WeightBeside(const std::string& adapter) {
  return absl::StrReplaceAll(adapter, {{".lora_A.", "."}, {".lora_B.", "."}});
}

bool IsAdapter(const std::string& tensor) {
  const std::string stored = StoredAdapter(tensor);
  return absl::EndsWith(stored, ".lora_A.weight") || absl::EndsWith(stored, ".lora_B.weight");
}

std::string StoredAdapter(const std::string& tensor) {
  absl::string_view name = tensor;
  absl::ConsumeSuffix(&name, kWeight);
  TakePart(name);
  return absl::StrCat(name, kWeight);
}

std::vector<std::string> AdapterTargets(Family family) {
  switch (family) {
    case Family::kGpt2:
      return {"c_attn", "c_proj", "c_fc"};
    case Family::kPhi3:
      return {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"};
    default:
      return {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  }
}

}  // namespace strata::model
