#include "planner/fit/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace strata::planner {
namespace {

TEST(Presets, HaveAsManyParametersAsWerePublished) {
  for (const Preset& preset : AllPresets()) {
    const auto model = PresetModel(preset.name);
    ASSERT_TRUE(model.ok()) << preset.name;
    EXPECT_EQ(std::llround(model->parameters()), preset.published_parameters) << preset.name;
  }
}

TEST(Presets, OfFamilies_AreModelsThatCanBe) {
  for (const Preset& preset : AllPresets()) {
    const auto model = PresetModel(preset.name);
    if (model->kind != FitModel::Kind::kFamily) continue;
    EXPECT_TRUE(model::Validate(model->spec).ok()) << preset.name;
  }
}

TEST(Presets, AreFoundWhateverTheCase) {
  EXPECT_EQ(PresetModel("Llama-3.1-8B")->name, "llama-3.1-8b");
  EXPECT_EQ(PresetModel("gpt2_medium")->name, "gpt2-medium");
}

TEST(Presets, AreFoundByTheNamesThatPeopleWrite) {
  const std::pair<const char*, const char*> names[] = {
      {"vit-base", "vit-b-16"},
      {"ViT-L/16", "vit-l-16"},
      {"vit_b_16", "vit-b-16"},
      {"google/vit-base-patch16-224", "vit-b-16"},
      {"bert-base-uncased", "bert-base"},
      {"google-bert/bert-large-uncased", "bert-large"},
      {"google-bert/bert-base-cased", "bert-base-cased"},
      {"GPT-2", "gpt2"},
      {"openai-community/gpt2-xl", "gpt2-xl"},
      {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
      {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
      {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
      {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
      {"llama3.1-8b", "llama-3.1-8b"},
      {"meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"},
      {"Llama-3.3-70B-Instruct", "llama-3.3-70b"},
      {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
      {"qwen-2.5-72b", "qwen2.5-72b"},
      {"Qwen/Qwen3-8B-Base", "qwen3-8b"},
      {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
      {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
      {"google/gemma-2-2b-it", "gemma-2-2b"},
      {"google/gemma-3-27b-pt", "gemma-3-27b"},
      {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"}};
  for (const auto& [written, preset] : names) {
    const auto model = PresetModel(written);
    ASSERT_TRUE(model.ok()) << written << ": " << model.status();
    EXPECT_EQ(model->name, preset) << written;
  }
  for (const Preset& preset : AllPresets()) {
    EXPECT_EQ(PresetModel(preset.name)->name, preset.name);
  }
  for (const char* other : {"llama", "gemma-22b", "vit-base-patch32-224", "phi-3-mini-128k"}) {
    EXPECT_FALSE(PresetModel(other).ok()) << other;
  }
}

TEST(Presets, AMisspeltName_IsToldTheNearest) {
  const auto model = PresetModel("lama-3.1-8b");
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()), testing::HasSubstr("llama-3.1-8b"));
}

TEST(Presets, AdaptersOf8B_AreAsManyAsTheLayersSay) {
  // q 8192, k and v 5120 each, o 8192, gate and up 18432 each, down 18432; 32 layers.
  const double widths = 32.0 * (8192 + 2 * 5120 + 8192 + 3 * 18432);
  EXPECT_DOUBLE_EQ(PresetModel("llama-3.1-8b")->adapter_widths(), widths);
}

}  // namespace
}  // namespace strata::planner
