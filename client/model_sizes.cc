#include "client/model_sizes.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/family_defaults.h"

namespace strata::client {
namespace {

using model::Family;
using nlohmann::json;

struct NamedFamily {
  const char* name;
  Family family;
  bool tied;  // what transformers takes when the file does not say
};
constexpr NamedFamily kFamilies[] = {{"llama", Family::kLlama, false},
                                     {"mistral", Family::kMistral, false},
                                     {"qwen2", Family::kQwen2, false},
                                     {"qwen3", Family::kQwen3, false},
                                     {"gpt2", Family::kGpt2, true}};

class Config {
 public:
  Config(std::string path, json values) : path_(std::move(path)), values_(std::move(values)) {}

  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }

  absl::StatusOr<NamedFamily> Family() const {
    const auto at = values_.find("model_type");
    if (at == values_.end() || !at->is_string()) return Error("model_type: missing");
    const std::string name = at->get<std::string>();
    for (const NamedFamily& family : kFamilies) {
      if (name == family.name) return family;
    }
    return Error(absl::StrCat("model_type: ", name,
                              " is not supported (llama, mistral, qwen2, qwen3 and gpt2 are)"));
  }

  // A whole number under `key`; absent, or null: `otherwise`.
  absl::StatusOr<int64_t> Count(const char* key, std::optional<int64_t> otherwise) const {
    const auto at = values_.find(key);
    if (at == values_.end() || at->is_null()) {
      if (otherwise) return *otherwise;
      return Error(absl::StrCat(key, ": missing"));
    }
    if (!at->is_number_unsigned() || at->get<uint64_t>() > uint64_t{1} << 40) {
      return Error(absl::StrCat(key, ": not a count"));
    }
    return at->get<int64_t>();
  }

  bool Flag(const char* key, bool otherwise) const {
    const auto at = values_.find(key);
    return at != values_.end() && at->is_boolean() ? at->get<bool>() : otherwise;
  }

 private:
  std::string path_;
  json values_;
};

absl::StatusOr<model::ModelSpec> Gpt2Sizes(const Config& config) {
  model::ModelSpec spec;
  ASSIGN_OR_RETURN(spec.hidden, config.Count("n_embd", std::nullopt));
  ASSIGN_OR_RETURN(spec.layers, config.Count("n_layer", std::nullopt));
  ASSIGN_OR_RETURN(spec.heads, config.Count("n_head", std::nullopt));
  ASSIGN_OR_RETURN(spec.ffn, config.Count("n_inner", 4 * spec.hidden));
  ASSIGN_OR_RETURN(spec.context, config.Count("n_positions", std::nullopt));
  spec.kv_heads = spec.heads;
  return spec;
}

absl::StatusOr<model::ModelSpec> LlamaSizes(const Config& config) {
  model::ModelSpec spec;
  ASSIGN_OR_RETURN(spec.hidden, config.Count("hidden_size", std::nullopt));
  ASSIGN_OR_RETURN(spec.layers, config.Count("num_hidden_layers", std::nullopt));
  ASSIGN_OR_RETURN(spec.heads, config.Count("num_attention_heads", std::nullopt));
  ASSIGN_OR_RETURN(spec.kv_heads, config.Count("num_key_value_heads", spec.heads));
  ASSIGN_OR_RETURN(spec.head_size, config.Count("head_dim", 0));
  ASSIGN_OR_RETURN(spec.ffn, config.Count("intermediate_size", std::nullopt));
  ASSIGN_OR_RETURN(spec.context, config.Count("max_position_embeddings", 1 << 20));
  return spec;
}

}  // namespace

absl::StatusOr<model::ModelSpec> ReadModelSizes(const std::string& folder) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  const std::string path = folder + "/config.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::InvalidArgumentError(path + ": cannot be read");
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostBytes) return absl::InvalidArgumentError(path + ": larger than 1 MiB");
  json values = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) return absl::InvalidArgumentError(path + ": not a JSON object");
  const Config config(path, std::move(values));
  ASSIGN_OR_RETURN(const NamedFamily family, config.Family());
  ASSIGN_OR_RETURN(model::ModelSpec spec,
                   family.family == Family::kGpt2 ? Gpt2Sizes(config) : LlamaSizes(config));
  spec.family = family.family;
  const model::ModelSpec usual = model::DefaultsOf(spec.family);
  spec.attention_bias = usual.attention_bias;
  spec.output_bias = usual.output_bias;
  spec.feed_forward_bias = usual.feed_forward_bias;
  ASSIGN_OR_RETURN(spec.vocab, config.Count("vocab_size", std::nullopt));
  if (spec.head_size == 0 && spec.heads > 0) spec.head_size = spec.hidden / spec.heads;
  spec.tied_embeddings = config.Flag("tie_word_embeddings", family.tied);
  const absl::Status valid = model::Validate(spec);
  if (!valid.ok()) return config.Error(std::string(valid.message()));
  return spec;
}

}  // namespace strata::client
