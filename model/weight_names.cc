#include "model/weight_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::model {
namespace {

// A part of what its family packs: `packed`.`part`.weight.
struct Part {
  const char* packed;
  const char* part;
  int64_t first_row;
  int64_t rows;
};

// Conv1D's, of blocks.
bool IsStoredTransposed(const ModelSpec& spec, const std::string& name) {
  return spec.family == Family::kGpt2 && absl::StrContains(name, ".c_") &&
         absl::EndsWith(name, ".weight");
}

}  // namespace

StoredAs HuggingFaceTensor(const ModelSpec& spec, const std::string& logical_name) {
  const int64_t q = spec.attention_width(), kv = spec.kv_heads * spec.head_size;
  const Part parts[] = {{"c_attn", "q", 0, q},
                        {"c_attn", "k", q, kv},
                        {"c_attn", "v", q + kv, kv},
                        {"qkv_proj", "q", 0, q},
                        {"qkv_proj", "k", q, kv},
                        {"qkv_proj", "v", q + kv, kv},
                        {"gate_up_proj", "gate", 0, spec.ffn},
                        {"gate_up_proj", "up", spec.ffn, spec.ffn}};
  StoredAs stored{logical_name, IsStoredTransposed(spec, logical_name), 0, 0};
  for (const Part& part : parts) {
    const std::string infix = absl::StrCat(".", part.packed, ".", part.part, ".");
    const size_t at = logical_name.find(infix);
    if (at == std::string::npos) continue;
    stored.tensor = absl::StrCat(logical_name.substr(0, at), ".", part.packed, ".",
                                 logical_name.substr(at + infix.size()));
    stored.first_row = part.first_row;
    stored.rows = part.rows;
  }
  return stored;
}

}  // namespace strata::model
