#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/config_fields.h"
#include "checkpoint/huggingface/rope_config.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;
using model::Activation;
using model::Family;
using model::ModelSpec;

struct FamilyNames {
  Family family;
  const char* type;
  const char* architecture;
};
constexpr FamilyNames kFamilies[] = {
    {Family::kGpt2, "gpt2", "GPT2LMHeadModel"},
    {Family::kLlama, "llama", "LlamaForCausalLM"},
    {Family::kMistral, "mistral", "MistralForCausalLM"},
    {Family::kQwen2, "qwen2", "Qwen2ForCausalLM"},
    {Family::kQwen3, "qwen3", "Qwen3ForCausalLM"},
    {Family::kGemma2, "gemma2", "Gemma2ForCausalLM"},
    {Family::kGemma3, "gemma3_text", "Gemma3ForCausalLM"},
    {Family::kPhi3, "phi3", "Phi3ForCausalLM"},
};

// What the original says beside the model, or an empty object.
Json StartFrom(const std::string& original) {
  Json json = Json::parse(original, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Json::object();
  const Json* const part = TextPart(json);
  if (part == nullptr) return json;
  Json text = *part;
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!text.contains(token) && json.contains(token)) text[token] = json[token];
  }
  return text;
}

const char* NameOf(Activation activation, Family family) {
  if (activation == Activation::kSilu) return "silu";
  if (activation == Activation::kGelu) return "gelu";
  return family == Family::kGpt2 ? "gelu_new" : "gelu_pytorch_tanh";
}

const char* TypeName(const std::string& type) {
  if (type == "bf16") return "bfloat16";
  return type == "f16" ? "float16" : "float32";
}

void WriteGpt2(const ModelSpec& model, Json& json) {
  json["n_embd"] = model.hidden;
  json["n_layer"] = model.layers;
  json["n_head"] = model.heads;
  json["n_inner"] = model.ffn;
  json["n_positions"] = json["n_ctx"] = model.context;
  json["layer_norm_epsilon"] = model.norm_epsilon;
  json["activation_function"] = NameOf(model.activation, model.family);
}

void WriteSizes(const ModelSpec& model, Json& json) {
  json["hidden_size"] = model.hidden;
  json["num_hidden_layers"] = model.layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_size;
  json["intermediate_size"] = model.ffn;
  json["max_position_embeddings"] = model.context;
  json["rms_norm_eps"] = model.norm_epsilon;
  const char* const activation = NameOf(model.activation, model.family);
  const bool gemma = model.family == Family::kGemma2 || model.family == Family::kGemma3;
  json[gemma ? "hidden_activation" : "hidden_act"] = activation;
  if (model.family == Family::kLlama) json["mlp_bias"] = model.feed_forward_bias;
  if (model.family == Family::kLlama || model.family == Family::kQwen3 || gemma) {
    json["attention_bias"] = model.attention_bias;
  }
  if (!gemma) return;
  const auto softcap = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  const double scale =
      model.query_scale > 0 ? model.query_scale : static_cast<double>(model.head_size);
  const auto whole = static_cast<int64_t>(scale);  // transformers 5 takes nothing else
  json["query_pre_attn_scalar"] = static_cast<double>(whole) == scale ? Json(whole) : Json(scale);
  json["attn_logit_softcapping"] = softcap(model.attention_softcap);
  json["final_logit_softcapping"] = softcap(model.logit_softcap);
}

// Both which layers have the window, and for transformers before it had layer_types, how many.
void WriteWindow(const ModelSpec& model, Json& json) {
  const bool qwen = model.family == Family::kQwen2 || model.family == Family::kQwen3;
  const bool gemma = model.family == Family::kGemma2 || model.family == Family::kGemma3;
  if (!qwen && !gemma) {
    if (model.family != Family::kLlama) {
      json["sliding_window"] =
          model.sliding_window > 0 ? Json(model.sliding_window) : Json(nullptr);
    }
    return;
  }
  Json types = Json::array();
  int64_t full = 0, first_window = -1, first_full = -1;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const bool sees_all = model.window(layer) == 0;
    types.push_back(sees_all ? "full_attention" : "sliding_attention");
    full += sees_all;
    if (sees_all && first_full < 0) first_full = layer;
    if (!sees_all && first_window < 0) first_window = layer;
  }
  json["layer_types"] = types;
  if (model.sliding_window > 0) json["sliding_window"] = model.sliding_window;
  if (qwen) {
    json["use_sliding_window"] = first_window >= 0;
    if (model.sliding_window == 0) json["sliding_window"] = nullptr;
    json["max_window_layers"] = first_window < 0 ? model.layers : full;
  }
  if (model.family == Family::kGemma3) {
    json["sliding_window_pattern"] = first_full < 0 ? model.layers + 1 : first_full + 1;
  }
}

void WriteTokens(const ConfigToWrite& config, Json& json) {
  if (!config.original.empty()) return;
  const auto id = [](const std::optional<int64_t>& token) {
    return token.has_value() ? Json(*token) : Json(nullptr);
  };
  json["bos_token_id"] = id(config.begin_of_text);
  json["eos_token_id"] = id(config.end_of_text);
  json["pad_token_id"] = nullptr;
}

}  // namespace

std::string FormatConfig(const ConfigToWrite& config) {
  const ModelSpec& model = config.model;
  Json json = StartFrom(config.original);
  for (const char* stale : {"auto_map", "_name_or_path", "transformers_version"}) {
    json.erase(stale);
  }
  for (const FamilyNames& names : kFamilies) {
    if (names.family != model.family) continue;
    json["model_type"] = names.type;
    json["architectures"] = Json::array({names.architecture});
  }
  json["vocab_size"] = model.vocab;
  json["tie_word_embeddings"] = model.tied_embeddings;
  json["initializer_range"] = model.initial_std;
  json["dtype"] = json["torch_dtype"] = TypeName(config.type);
  if (model.family == Family::kGpt2) {
    WriteGpt2(model, json);
  } else {
    WriteSizes(model, json);
    WriteWindow(model, json);
    WriteRope(model, json);
  }
  WriteTokens(config, json);
  // Texts of an original that are not UTF-8 cannot be: it was parsed.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::checkpoint
