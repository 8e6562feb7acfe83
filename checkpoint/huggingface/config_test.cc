#include "checkpoint/huggingface/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/model_spec_proto.h"

namespace strata::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using v1::ModelSpec;

HuggingFaceConfig Parse(const std::string& text) {
  const absl::StatusOr<HuggingFaceConfig> config = ParseConfig(text, "D/config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(HuggingFaceConfig());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<HuggingFaceConfig> config = ParseConfig(text, "D/config.json");
  EXPECT_TRUE(absl::IsInvalidArgument(config.status())) << config.status();
  return std::string(config.status().message());
}

// What is read from what is written of it: the same model.
void ExpectRoundTrip(const std::string& text) {
  const absl::StatusOr<model::ModelSpec> model = model::FromProto(Parse(text).model);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const std::string& original : {std::string(), text}) {
    ConfigToWrite config;
    config.model = *model;
    config.type = "bf16";
    config.original = original;
    const HuggingFaceConfig again = Parse(FormatConfig(config));
    EXPECT_EQ(again.type, "bf16");
    const absl::StatusOr<model::ModelSpec> same = model::FromProto(again.model);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(model::ToProto(*same).DebugString(), model::ToProto(*model).DebugString());
  }
}

constexpr char kLlama31[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 128256, "attention_bias": false, "mlp_bias": false,
  "eos_token_id": [128001, 128008, 128009]})";

TEST(ParseConfig, OfLlama31ReadsItsRopeScaling) {
  const HuggingFaceConfig config = Parse(kLlama31);
  EXPECT_EQ(config.type, "bf16");
  EXPECT_THAT(config.notices, IsEmpty());
  const ModelSpec& model = config.model;
  EXPECT_EQ(model.family(), ModelSpec::FAMILY_LLAMA);
  EXPECT_EQ(model.kv_heads(), 8);
  EXPECT_EQ(model.head_size(), 128);
  EXPECT_EQ(model.norm_epsilon(), 1e-5);
  EXPECT_EQ(model.rope().theta(), 500000);
  EXPECT_EQ(model.rope().scaling().rope_type(), "llama3");
  EXPECT_EQ(model.rope().scaling().original_max_position_embeddings(), 8192);
  ExpectRoundTrip(kLlama31);
}

// Mixtral-8x7B-v0.1, as its authors published it.
constexpr char kMixtral[] = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.36.0.dev0", "use_cache": true, "vocab_size": 32000})";

TEST(ParseConfig, OfMixtralReadsItsExpertsWhereTheyAreAskedFor) {
  const auto config = ParseConfig(kMixtral, "config.json", Experts::kRead);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->experts, 8);
  EXPECT_EQ(config->experts_per_token, 2);
  EXPECT_EQ(config->model.family(), ModelSpec::FAMILY_MISTRAL);
  EXPECT_EQ(config->model.ffn(), 14336);
  EXPECT_EQ(config->model.context(), 32768);
  EXPECT_EQ(config->model.rope().theta(), 1e6);
  EXPECT_EQ(config->model.sliding_window(), 0);
  EXPECT_THAT(std::string(ParseConfig(kMixtral, "config.json").status().message()),
              HasSubstr("model_type: \"mixtral\" is not supported (a mixture of experts)"));
  nlohmann::json json = nlohmann::json::parse(kMixtral);
  json["num_experts_per_tok"] = 9;
  EXPECT_THAT(
      std::string(ParseConfig(json.dump(), "config.json", Experts::kRead).status().message()),
      HasSubstr("num_experts_per_tok: 9 of 8 experts"));
}

TEST(ParseConfig, OfNewerFilesReadsRopeParametersAlike) {
  nlohmann::json json = nlohmann::json::parse(kLlama31);
  json["rope_parameters"] = json["rope_scaling"];
  json["rope_parameters"]["rope_theta"] = json["rope_theta"];
  json["dtype"] = json["torch_dtype"];
  for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) json.erase(key);
  const HuggingFaceConfig config = Parse(json.dump());
  EXPECT_EQ(config.type, "bf16");
  EXPECT_EQ(config.model.DebugString(), Parse(kLlama31).model.DebugString());
}

TEST(ParseConfig, OfLittleTakesWhatTransformersTakes) {
  const ModelSpec llama = Parse(R"({"model_type": "llama"})").model;
  EXPECT_EQ(llama.hidden(), 4096);
  EXPECT_EQ(llama.kv_heads(), 32);
  EXPECT_EQ(llama.context(), 2048);
  EXPECT_EQ(llama.norm_epsilon(), 1e-6);
  EXPECT_FALSE(llama.tied_embeddings());
  const ModelSpec mistral = Parse(R"({"model_type": "mistral"})").model;
  EXPECT_EQ(mistral.kv_heads(), 8);
  EXPECT_EQ(mistral.sliding_window(), 4096);
  const ModelSpec qwen3 = Parse(R"({"model_type": "qwen3", "num_attention_heads": 16})").model;
  EXPECT_EQ(qwen3.head_size(), 128);
  EXPECT_EQ(qwen3.kv_heads(), 32) << "which is what its class has, and no model can have";
  EXPECT_TRUE(Parse(R"({"model_type": "gemma2"})").model.tied_embeddings());
}

TEST(ParseConfig, OfGpt2HasItsOwnKeysAndNoticesDropout) {
  const char* const text = R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
      "n_positions": 1024, "vocab_size": 50257, "n_inner": null})";
  const HuggingFaceConfig config = Parse(text);
  EXPECT_EQ(config.model.ffn(), 3072);
  EXPECT_EQ(config.model.kv_heads(), 12);
  EXPECT_TRUE(config.model.tied_embeddings());
  EXPECT_EQ(config.model.activation(), ModelSpec::ACTIVATION_GELU_TANH);
  EXPECT_THAT(config.notices, ElementsAre(HasSubstr("resid_pdrop 0.1, embd_pdrop 0.1")));
  ExpectRoundTrip(text);
}

TEST(ParseConfig, OfMistralReadsNullAsNoWindow) {
  const char* const with = R"({"model_type": "mistral", "sliding_window": 1024, "head_dim": null})";
  EXPECT_EQ(Parse(with).model.sliding_window(), 1024);
  ExpectRoundTrip(with);
  const char* const without = R"({"model_type": "mistral", "sliding_window": null})";
  EXPECT_FALSE(Parse(without).model.has_sliding_window());
  ExpectRoundTrip(without);
}

TEST(ParseConfig, OfQwen2HasBiasesAndWindowsOnlyWhereAsked) {
  const std::string start = R"({"model_type": "qwen2", "num_hidden_layers": 4,
      "num_key_value_heads": null, "max_window_layers": 3, "sliding_window": 64)";
  const ModelSpec off = Parse(start + R"(, "use_sliding_window": false})").model;
  EXPECT_TRUE(off.attention_bias());
  EXPECT_FALSE(off.output_bias());
  EXPECT_EQ(off.kv_heads(), 32);
  EXPECT_FALSE(off.has_sliding_window());
  const ModelSpec on = Parse(start + R"(, "use_sliding_window": true})").model;
  EXPECT_EQ(on.sliding_window(), 64);
  EXPECT_THAT(on.full_attention_layers(), ElementsAre(0, 1, 2));
  ExpectRoundTrip(start + R"(, "use_sliding_window": true})");
  const std::string types = R"(, "use_sliding_window": true, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "sliding_attention"]})";
  EXPECT_THAT(Parse(start + types).model.full_attention_layers(), ElementsAre(0, 2));
  ExpectRoundTrip(start + types);
}

TEST(ParseConfig, OfYarnComputesWhatTheFileLeavesOut) {
  const char* const text = R"({"model_type": "qwen3", "max_position_embeddings": 131072,
      "rope_theta": 1000000, "rope_scaling": {"type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32768}})";
  const v1::RopeScaling scaling = Parse(text).model.rope().scaling();
  EXPECT_EQ(scaling.factor(), 4);
  EXPECT_EQ(scaling.beta_fast(), 32);
  EXPECT_FALSE(scaling.has_attention_factor());
  ExpectRoundTrip(text);
}

TEST(ParseConfig, OfGemma2HasWindowsInEverySecondLayer) {
  const char* const text = R"({"model_type": "gemma2", "num_hidden_layers": 5,
      "hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 224,
      "final_logit_softcapping": null})";
  const ModelSpec model = Parse(text).model;
  EXPECT_EQ(model.sliding_window(), 4096);
  EXPECT_THAT(model.full_attention_layers(), ElementsAre(1, 3));
  EXPECT_EQ(model.query_scale(), 224);
  EXPECT_EQ(model.attention_softcap(), 50);
  EXPECT_EQ(model.logit_softcap(), 0);
  EXPECT_TRUE(model.has_logit_softcap()) << "absent would be the family's";
  ExpectRoundTrip(text);
}

TEST(ParseConfig, OfGemma3ReadsBothTablesInBothForms) {
  const char* const old = R"({"model_type": "gemma3_text", "num_hidden_layers": 8,
      "rope_local_base_freq": 9000, "rope_theta": 2000000, "sliding_window": 512,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window_pattern": 3})";
  const ModelSpec model = Parse(old).model;
  EXPECT_EQ(model.rope().theta(), 2e6);
  EXPECT_EQ(model.rope().local_theta(), 9000);
  EXPECT_EQ(model.rope().scaling().factor(), 8);
  EXPECT_THAT(model.full_attention_layers(), ElementsAre(2, 5));
  EXPECT_EQ(model.attention_softcap(), 0);
  ExpectRoundTrip(old);
  const char* const newer = R"({"model_type": "gemma3_text", "num_hidden_layers": 8,
      "sliding_window": 512, "layer_types": ["sliding_attention", "sliding_attention",
      "full_attention", "sliding_attention", "sliding_attention", "full_attention",
      "sliding_attention", "sliding_attention"], "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2000000},
      "sliding_attention": {"rope_type": "default", "rope_theta": 9000}}})";
  EXPECT_EQ(Parse(newer).model.DebugString(), model.DebugString());
}

TEST(ParseConfig, OfAModelWithEyesTakesItsTextPart) {
  const HuggingFaceConfig config = Parse(R"({"model_type": "gemma3", "torch_dtype": "bfloat16",
      "vision_config": {}, "text_config": {"num_hidden_layers": 2, "hidden_size": 640}})");
  EXPECT_EQ(config.model.family(), ModelSpec::FAMILY_GEMMA3);
  EXPECT_EQ(config.model.hidden(), 640);
  EXPECT_EQ(config.type, "bf16");
  EXPECT_THAT(config.notices, ElementsAre(HasSubstr("text model")));
}

TEST(ParseConfig, OfPhi3ReadsLongRope) {
  const char* const text = R"({"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 8192,
      "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rope_scaling":
      {"type": "su", "short_factor": [1, 1.1, 1, 1, 1, 1], "long_factor": [1, 2, 3, 4, 5, 6]}})";
  const v1::RopeSpec rope = Parse(text).model.rope();
  EXPECT_EQ(rope.scaling().rope_type(), "longrope");
  EXPECT_EQ(rope.scaling().factor(), 2);
  EXPECT_EQ(rope.scaling().original_max_position_embeddings(), 4096);
  EXPECT_THAT(rope.scaling().long_factor(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(rope.partial_rotary_factor(), 0.75);
  ExpectRoundTrip(text);
}

TEST(ParseConfig, OfWhatIsNotSupportedNamesTheKeyAndWhatToDo) {
  EXPECT_EQ(ErrorOf("[]"), "D/config.json: not a JSON object — download the directory again");
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("D/config.json: model_type: missing — name a model of"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "bert"})"), HasSubstr("\"bert\" is not supported"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "mixtral"})"), HasSubstr("mixture of experts"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "quantization_config": {"bits": 4}})"),
              HasSubstr("quantization_config: quantised weights are not supported — name"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "rope_scaling": {"rope_type": "dynamic",
                      "factor": 2}})"),
              HasSubstr("rope_scaling.rope_type: dynamic is not supported"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "rope_scaling": {"type": "wide"}})"),
              HasSubstr("\"wide\" is not supported"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "rope_scaling": {"type": "llama3"}})"),
              AllOf(HasSubstr("factor: missing"), HasSubstr("low_freq_factor: missing")));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "hidden_act": "relu"})"),
              HasSubstr("hidden_act: \"relu\" is not supported"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "hidden_size": 100})"),
              HasSubstr("num_attention_heads: 32 does not divide hidden_size 100"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "num_attention_heads": 0})"),
              HasSubstr("not greater than 0"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})"),
              HasSubstr("scale_attn_by_inverse_layer_idx"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "gemma2", "num_hidden_layers": 2, "layer_types": ["x"]})"),
              HasSubstr("layer_types: 1 entries, for 2 layers"));
}

TEST(ParseConfig, TellsAllProblemsAtOnce) {
  const std::string error =
      ErrorOf(R"({"model_type": "llama", "hidden_size": -4, "vocab_size": "many", "mlp_bias": 3})");
  EXPECT_THAT(error, AllOf(HasSubstr("D/config.json: hidden_size: not a count"),
                           HasSubstr("D/config.json: vocab_size: not a count"),
                           HasSubstr("D/config.json: mlp_bias: not true or false")));
}

TEST(FormatConfig, KeepsWhatTheOriginalSaysBesideTheModel) {
  const absl::StatusOr<model::ModelSpec> model = model::FromProto(Parse(kLlama31).model);
  ASSERT_TRUE(model.ok());
  ConfigToWrite config;
  config.model = *model;
  config.type = "f32";
  config.original = kLlama31;
  const nlohmann::json written = nlohmann::json::parse(FormatConfig(config));
  EXPECT_EQ(written["eos_token_id"], nlohmann::json({128001, 128008, 128009}));
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written["rope_parameters"]["rope_theta"], 500000);
  EXPECT_EQ(written["rope_scaling"]["rope_type"], "llama3");
}

TEST(FormatConfig, WithoutAnOriginalNamesTheTokenizersTokens) {
  const absl::StatusOr<model::ModelSpec> model =
      model::FromProto(Parse(R"({"model_type": "gpt2"})").model);
  ASSERT_TRUE(model.ok());
  ConfigToWrite config;
  config.model = *model;
  config.end_of_text = 7;
  const nlohmann::json written = nlohmann::json::parse(FormatConfig(config));
  EXPECT_EQ(written["eos_token_id"], 7);
  EXPECT_TRUE(written["bos_token_id"].is_null());
  EXPECT_EQ(written["architectures"], nlohmann::json({"GPT2LMHeadModel"}));
}

}  // namespace
}  // namespace strata::checkpoint
