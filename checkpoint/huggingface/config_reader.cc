#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/config_fields.h"
#include "checkpoint/huggingface/rope_config.h"
#include "checkpoint/manifest.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;
using v1::ModelSpec;

constexpr int64_t kMostLayers = 4096, kMostExperts = 65536;

// What a file leaves out, as the family's configuration class in transformers has it.
struct FamilyDefaults {
  const char* type;
  ModelSpec::Family family;
  int64_t vocab, hidden, ffn, layers, heads;
  int64_t kv_heads;   // 0: heads
  int64_t head_size;  // 0: hidden / heads
  int64_t context;
  double norm_epsilon;
  bool tied;
  int64_t window;  // 0: none
};
constexpr FamilyDefaults kFamilies[] = {
    {"gpt2", ModelSpec::FAMILY_GPT2, 50257, 768, 0, 12, 12, 0, 0, 1024, 1e-5, true, 0},
    {"llama", ModelSpec::FAMILY_LLAMA, 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false, 0},
    {"mistral", ModelSpec::FAMILY_MISTRAL, 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false,
     4096},
    {"qwen2", ModelSpec::FAMILY_QWEN2, 151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, false,
     4096},
    {"qwen3", ModelSpec::FAMILY_QWEN3, 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, false,
     4096},
    {"gemma2", ModelSpec::FAMILY_GEMMA2, 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, true, 4096},
    {"gemma3_text", ModelSpec::FAMILY_GEMMA3, 262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, true,
     4096},
    {"phi3", ModelSpec::FAMILY_PHI3, 32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5, false, 0},
};

// Mistral with experts: Jiang et al., "Mixtral of Experts", 2024.
constexpr FamilyDefaults kMixtral = {
    "mixtral", ModelSpec::FAMILY_MISTRAL, 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5, false, 0};

const FamilyDefaults* FamilyOf(const ConfigFields& config, Experts reading) {
  const std::string type = config.Text("model_type", "");
  std::vector<std::string> known;
  if (reading == Experts::kRead) {
    if (type == kMixtral.type) return &kMixtral;
    known.emplace_back(kMixtral.type);
  }
  for (const FamilyDefaults& family : kFamilies) {
    if (type == family.type) return &family;
    known.emplace_back(family.type);
  }
  const bool experts = absl::StrContains(type, "moe") || type == "mixtral";
  const std::string what = type.empty()
                               ? "missing"
                               : absl::StrCat("\"", type.substr(0, 80), "\" is not supported",
                                              experts ? " (a mixture of experts)" : "");
  config.Report("model_type", what,
                absl::StrCat("name a model of one of ", absl::StrJoin(known, ", ")));
  return nullptr;
}

void ReadActivation(const ConfigFields& config, const char* key, const char* otherwise,
                    ModelSpec& model) {
  constexpr std::pair<const char*, ModelSpec::Activation> kNames[] = {
      {"silu", ModelSpec::ACTIVATION_SILU},
      {"swish", ModelSpec::ACTIVATION_SILU},
      {"gelu", ModelSpec::ACTIVATION_GELU},
      {"gelu_new", ModelSpec::ACTIVATION_GELU_TANH},
      {"gelu_fast", ModelSpec::ACTIVATION_GELU_TANH},
      {"gelu_pytorch_tanh", ModelSpec::ACTIVATION_GELU_TANH}};
  const std::string name = config.Text(key, otherwise);
  for (const auto& [known, activation] : kNames) {
    if (name == known) return model.set_activation(activation);
  }
  config.Report(key, absl::StrCat("\"", name.substr(0, 80), "\" is not supported"),
                "silu, gelu, gelu_new and gelu_pytorch_tanh are");
}

// The width of what several heads share evenly.
void CheckHeads(const ConfigFields& config, const char* hidden, const char* heads,
                ModelSpec& model) {
  if (model.heads() < 1) return config.Report(heads, "not greater than 0", "correct the file");
  if (model.head_size() > 0) return;
  if (model.hidden() % model.heads() != 0) {
    return config.Report(heads,
                         absl::StrCat(model.heads(), " does not divide ", hidden, " ",
                                      model.hidden(), ", and head_dim is not given"),
                         "correct the file");
  }
  model.set_head_size(model.hidden() / model.heads());
}

void ReadGpt2(const ConfigFields& config, const FamilyDefaults& family, ModelSpec& model) {
  model.set_hidden(config.Count("n_embd", family.hidden));
  model.set_layers(config.Count("n_layer", family.layers, kMostLayers));
  model.set_heads(config.Count("n_head", family.heads));
  model.set_kv_heads(model.heads());
  model.set_ffn(config.Count("n_inner", 4 * model.hidden()));
  model.set_context(config.Count("n_positions", family.context));
  model.set_norm_epsilon(config.Number("layer_norm_epsilon", family.norm_epsilon));
  CheckHeads(config, "n_embd", "n_head", model);
  ReadActivation(config, "activation_function", "gelu_new", model);
  for (const char* key : {"add_cross_attention", "scale_attn_by_inverse_layer_idx"}) {
    if (config.Flag(key, false)) config.Report(key, "true is not supported", "name another model");
  }
  if (!config.Flag("scale_attn_weights", true)) {
    config.Report("scale_attn_weights", "false is not supported", "name another model");
  }
}

void ReadSizes(const ConfigFields& config, const FamilyDefaults& family, ModelSpec& model) {
  model.set_hidden(config.Count("hidden_size", family.hidden));
  model.set_layers(config.Count("num_hidden_layers", family.layers, kMostLayers));
  model.set_heads(config.Count("num_attention_heads", family.heads));
  const bool as_heads = family.kv_heads == 0 || config.IsNull("num_key_value_heads");
  model.set_kv_heads(
      config.Count("num_key_value_heads", as_heads ? model.heads() : family.kv_heads));
  const bool derived = config.IsNull("head_dim");
  model.set_head_size(config.Count("head_dim", derived ? 0 : family.head_size));
  model.set_ffn(config.Count("intermediate_size", family.ffn));
  model.set_context(config.Count("max_position_embeddings", family.context));
  model.set_norm_epsilon(config.Number("rms_norm_eps", family.norm_epsilon));
  CheckHeads(config, "hidden_size", "num_attention_heads", model);
}

void ReadBiases(const ConfigFields& config, ModelSpec& model) {
  switch (model.family()) {
    case ModelSpec::FAMILY_QWEN2:  // always, whatever the file says
      return model.set_attention_bias(true);
    case ModelSpec::FAMILY_LLAMA:
      model.set_feed_forward_bias(config.Flag("mlp_bias", false));
      break;
    case ModelSpec::FAMILY_QWEN3:
    case ModelSpec::FAMILY_GEMMA2:
    case ModelSpec::FAMILY_GEMMA3:
      break;
    default:
      return;
  }
  model.set_attention_bias(config.Flag("attention_bias", false));
  model.set_output_bias(model.attention_bias());
}

bool IsQwen(const ModelSpec& model) {
  return model.family() == ModelSpec::FAMILY_QWEN2 || model.family() == ModelSpec::FAMILY_QWEN3;
}
bool IsGemma(const ModelSpec& model) {
  return model.family() == ModelSpec::FAMILY_GEMMA2 || model.family() == ModelSpec::FAMILY_GEMMA3;
}

// Which layers see everything although there is a window, where the file does not list them.
std::vector<int64_t> FullLayers(const ConfigFields& config, const ModelSpec& model) {
  std::vector<int64_t> full;
  const int64_t from_window = config.Count("max_window_layers", 28);
  const int64_t pattern = std::max<int64_t>(1, config.Count("sliding_window_pattern", 6));
  for (int64_t layer = 0; layer < model.layers(); ++layer) {
    bool sees_all = false;
    if (model.family() == ModelSpec::FAMILY_GEMMA2) sees_all = layer % 2 == 1;
    if (model.family() == ModelSpec::FAMILY_GEMMA3) sees_all = (layer + 1) % pattern == 0;
    if (IsQwen(model)) sees_all = layer < from_window;
    if (sees_all) full.push_back(layer);
  }
  return full;
}

std::vector<int64_t> ListedLayers(const ConfigFields& config, const ModelSpec& model) {
  const std::vector<std::string> types = config.Texts("layer_types");
  std::vector<int64_t> full;
  if (static_cast<int64_t>(types.size()) != model.layers()) {
    config.Report("layer_types",
                  absl::StrCat(types.size(), " entries, for ", model.layers(), " layers"),
                  "correct the file");
    return full;
  }
  for (size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] == "full_attention") full.push_back(static_cast<int64_t>(layer));
    if (types[layer] == "full_attention" || types[layer] == "sliding_attention") continue;
    config.Report("layer_types",
                  absl::StrCat("\"", types[layer].substr(0, 80), "\" is not supported"),
                  "full_attention and sliding_attention are");
    break;
  }
  return full;
}

void ReadWindow(const ConfigFields& config, const FamilyDefaults& family, ModelSpec& model) {
  const bool layered = IsQwen(model) || IsGemma(model);
  const bool asked = (!IsQwen(model) || config.Flag("use_sliding_window", false)) &&
                     model.family() != ModelSpec::FAMILY_LLAMA;
  const bool none = !asked || config.IsNull("sliding_window");
  const int64_t window = none ? 0 : config.Count("sliding_window", family.window);
  const bool listed = layered && config.Has("layer_types");
  const std::vector<int64_t> full =
      listed ? ListedLayers(config, model) : FullLayers(config, model);
  const bool all_full = static_cast<int64_t>(full.size()) == model.layers();
  if (window == 0) {
    if (listed && asked && !all_full) {
      config.Report("layer_types", "has layers with a window, and sliding_window is not given",
                    "correct the file");
    }
    return;
  }
  if (layered && all_full) return;
  model.set_sliding_window(window);
  if (layered) model.mutable_full_attention_layers()->Add(full.begin(), full.end());
}

void ReadGemma(const ConfigFields& config, ModelSpec& model) {
  // Gemma 3 has softcaps only where its file says so.
  const bool second = model.family() == ModelSpec::FAMILY_GEMMA2;
  const auto softcap = [&](const char* key, double otherwise) {
    return config.IsNull(key) ? 0 : config.Number(key, second ? otherwise : 0);
  };
  model.set_query_scale(config.Number("query_pre_attn_scalar", 256));
  model.set_attention_softcap(softcap("attn_logit_softcapping", 50));
  model.set_logit_softcap(softcap("final_logit_softcapping", 30));
  if (config.Flag("use_bidirectional_attention", false)) {
    config.Report("use_bidirectional_attention", "true is not supported", "name another model");
  }
}

void ReadExperts(const ConfigFields& config, HuggingFaceConfig* result) {
  result->experts = config.Count("num_local_experts", 8, kMostExperts);
  result->experts_per_token = config.Count("num_experts_per_tok", 2, kMostExperts);
  if (result->experts < 1) config.Report("num_local_experts", "not greater than 0", "correct it");
  if (result->experts_per_token >= 1 && result->experts_per_token <= result->experts) return;
  config.Report("num_experts_per_tok",
                absl::StrCat(result->experts_per_token, " of ", result->experts, " experts"),
                "correct the file");
}

void RefuseUnsupported(const ConfigFields& config, bool with_experts) {
  if (config.Has("quantization_config")) {
    config.Report("quantization_config", "quantised weights are not supported",
                  "name the original model, or one that was saved after dequantize()");
  }
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (!with_experts && config.Has(key) && config.Count(key, 0) > 0) {
      config.Report(key, "experts are not supported", "name a dense model");
    }
  }
  for (const char* key : {"use_mrope", "is_encoder_decoder"}) {
    if (config.Has(key) && config.Flag(key, false)) {
      config.Report(key, "true is not supported", "name another model");
    }
  }
}

// Of the keys that there are, or that GPT-2's class adds.
void NoticeDropout(const ConfigFields& config, const ModelSpec& model, HuggingFaceConfig* result) {
  const double otherwise = model.family() == ModelSpec::FAMILY_GPT2 ? 0.1 : 0;
  std::vector<std::string> found;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"}) {
    const bool other = key == std::string("attention_dropout");
    const double probability = config.Number(key, other ? 0 : otherwise);
    if (probability != 0) found.push_back(absl::StrCat(key, " ", probability));
  }
  if (found.empty()) return;
  result->notices.push_back(absl::StrCat("dropout is ignored (", absl::StrJoin(found, ", "), ")"));
}

std::string TypeOf(const ConfigFields& config) {
  std::string type = config.Text("dtype", config.Text("torch_dtype", ""));
  if (absl::StartsWith(type, "torch.")) type = type.substr(6);
  if (type == "float32") return "f32";
  if (type == "bfloat16") return "bf16";
  if (type == "float16") return "f16";
  return "";
}

void ReadModel(const ConfigFields& config, Experts reading, HuggingFaceConfig* result) {
  const FamilyDefaults* const family = FamilyOf(config, reading);
  if (family == nullptr) return;
  ModelSpec& model = result->model;
  model.set_family(family->family);
  const bool with_experts = family == &kMixtral;
  RefuseUnsupported(config, with_experts);
  if (with_experts) ReadExperts(config, result);
  model.set_vocab(config.Count("vocab_size", family->vocab));
  model.set_tied_embeddings(config.Flag("tie_word_embeddings", family->tied));
  model.set_initial_std(config.Number("initializer_range", 0.02));
  result->type = TypeOf(config);
  if (family->family == ModelSpec::FAMILY_GPT2) {
    ReadGpt2(config, *family, model);
  } else {
    const bool gemma = IsGemma(model);
    ReadSizes(config, *family, model);
    ReadActivation(config, gemma ? "hidden_activation" : "hidden_act",
                   gemma ? "gelu_pytorch_tanh" : "silu", model);
    ReadBiases(config, model);
    ReadWindow(config, *family, model);
    if (gemma) ReadGemma(config, model);
    ReadRope(config, model);
  }
  NoticeDropout(config, model, result);
}

}  // namespace

bool IsModelFolder(const std::string& folder, FileSystem* files) {
  return files->Exists(absl::StrCat(folder, "/", kConfigName)) &&
         !files->Exists(absl::StrCat(folder, "/", kManifestName));
}

absl::StatusOr<HuggingFaceConfig> ParseConfig(const std::string& text, const std::string& path,
                                              Experts experts) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, json.is_discarded() ? ": not valid JSON" : ": not a JSON object",
                     " — download the directory again"));
  }
  HuggingFaceConfig result;
  std::vector<std::string> problems;
  if (const Json* const text_part = TextPart(json); text_part != nullptr) {
    Json inner = *text_part;
    inner["model_type"] = "gemma3_text";
    for (const char* key : {"dtype", "torch_dtype", "quantization_config"}) {
      if (!inner.contains(key) && json.contains(key)) inner[key] = json[key];
    }
    ReadModel(ConfigFields(inner, "text_config.", &problems), experts, &result);
    result.notices.emplace_back(
        "the part that sees pictures is left out: only the text model is used");
  } else {
    ReadModel(ConfigFields(json, "", &problems), experts, &result);
  }
  if (problems.empty()) return result;
  for (std::string& problem : problems) problem = absl::StrCat(path, ": ", problem);
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

absl::StatusOr<HuggingFaceConfig> ReadConfig(const std::string& folder, FileSystem* files,
                                             Experts experts) {
  const std::string path = absl::StrCat(folder, "/", kConfigName);
  const absl::StatusOr<std::string> text = files->ReadWhole(path, kLargestConfigBytes);
  if (absl::IsNotFound(text.status())) {
    const bool adapter = files->Exists(absl::StrCat(folder, "/adapter_config.json"));
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": is not there — ",
        adapter ? "the directory is an adapter's: name its base model, and it with model.adapter"
                : "name a Hugging Face directory, as save_pretrained writes it"));
  }
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseConfig(*text, path, experts);
}

}  // namespace strata::checkpoint
