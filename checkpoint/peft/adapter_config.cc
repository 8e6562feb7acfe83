#include "checkpoint/peft/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargestRank = int64_t{1} << 20;

// Variants of LoRA, which change what an adapter computes or which tensors there are.
constexpr const char* kVariants[] = {"use_rslora",
                                     "use_dora",
                                     "use_qalora",
                                     "use_bdlora",
                                     "lora_bias",
                                     "modules_to_save",
                                     "rank_pattern",
                                     "alpha_pattern",
                                     "layer_replication",
                                     "target_parameters",
                                     "trainable_token_indices",
                                     "alora_invocation_tokens",
                                     "arrow_config",
                                     "kasa_config",
                                     "velora_config",
                                     "monteclora_config"};

// Null, false, and what is empty: a variant that is not used.
bool IsOff(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_structured() && value.empty());
}

class Parser {
 public:
  Parser(const Json& json, const std::string& path) : json_(json), path_(path) {}

  absl::StatusOr<AdapterConfig> Run() {
    AdapterConfig config;
    if (Text("peft_type", "LORA") != "LORA") {
      Report("peft_type", "only LORA is supported", "convert the adapter to LoRA");
    }
    const double rank = Number("r");
    if (rank >= 1 && rank <= static_cast<double>(kLargestRank) && rank == std::floor(rank)) {
      config.rank = static_cast<int64_t>(rank);
    } else {
      Report("r", "not a rank", "it must be a whole number, at least 1");
    }
    config.alpha = Number("lora_alpha");
    config.base = Text("base_model_name_or_path", "");
    if (Text("bias", "none") != "none") {
      Report("bias", "trained biases are not supported", "train the adapter with bias none");
    }
    for (const char* key : kVariants) {
      const auto found = json_.find(key);
      if (found == json_.end() || IsOff(*found)) continue;
      Report(key, "is not supported", "merge the adapter with PEFT, or train one without it");
    }
    if (problems_.empty()) return config;
    return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
  }

 private:
  void Report(const char* key, const char* what, const char* instead) {
    problems_.push_back(absl::StrCat(path_, ": ", key, ": ", what, " — ", instead));
  }
  double Number(const char* key) {
    const auto found = json_.find(key);
    if (found != json_.end() && found->is_number() && std::isfinite(found->get<double>())) {
      return found->get<double>();
    }
    Report(key, found == json_.end() ? "missing" : "not a number", "correct the file");
    return 0;
  }
  std::string Text(const char* key, const char* otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return otherwise;
    if (found->is_string()) return found->get<std::string>();
    Report(key, "not a text", "correct the file");
    return otherwise;
  }

  const Json& json_;
  const std::string& path_;
  std::vector<std::string> problems_;
};

}  // namespace

absl::StatusOr<AdapterConfig> ParseAdapterConfig(const std::string& text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a JSON object"));
  }
  return Parser(json, path).Run();
}

absl::StatusOr<AdapterConfig> ReadAdapterConfig(const std::string& folder, FileSystem* files) {
  const std::string path = absl::StrCat(folder, "/", kAdapterConfigName);
  const absl::StatusOr<std::string> text = files->ReadWhole(path, kLargestAdapterConfigBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        text.status().message(), " — name a PEFT directory, with ", kAdapterConfigName));
  }
  return ParseAdapterConfig(*text, path);
}

std::string FormatAdapterConfig(const AdapterConfig& config) {
  Json json = Json::object();
  // What PEFT takes as it is by default is left out but where older versions ask for it.
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = config.base.empty() ? Json(nullptr) : Json(config.base);
  json["r"] = config.rank;
  json["lora_alpha"] = config.alpha;
  if (config.alpha == std::floor(config.alpha)) {
    json["lora_alpha"] = static_cast<int64_t>(config.alpha);
  }
  json["lora_dropout"] = 0.0;
  json["bias"] = "none";
  json["fan_in_fan_out"] = config.transposed;
  json["inference_mode"] = true;
  json["init_lora_weights"] = true;
  json["use_rslora"] = false;
  json["use_dora"] = false;
  json["modules_to_save"] = nullptr;
  json["rank_pattern"] = Json::object();
  json["alpha_pattern"] = Json::object();
  json["target_modules"] = config.modules;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::checkpoint
