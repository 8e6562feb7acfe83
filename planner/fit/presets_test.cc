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
