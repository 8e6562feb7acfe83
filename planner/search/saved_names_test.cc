#include "planner/search/saved_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/family_defaults.h"
#include "model/saved_values.h"

namespace strata::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SavedValues kQkvAndAttention =
    kNoValues.with(SavedValue::kQkv).with(SavedValue::kAttention);

// What a norm behind the block's last product reads is kept with anything.
TEST(SavedNamesTest, EveryNameOfEveryFamilyHasAKind) {
  for (const std::string& name : model::NamesOfSavableValues(std::nullopt)) {
    if (name == "down" || name == "down_rstd") continue;
    EXPECT_TRUE(KindOfValue(name).has_value()) << name;
  }
}

TEST(SavedNamesTest, WithEachValueGoesWhatItsReaderNeedsBesides) {
  const SavedNames llama;
  EXPECT_THAT(llama.ListOf(kQkvAndAttention), ElementsAre("qkv", "attention", "log_sum_exp"));
  EXPECT_THAT(llama.ListOf(kUsualValues),
              ElementsAre("qkv", "attention", "log_sum_exp", "residual", "gate_up"));
  EXPECT_THAT(llama.ListOf(kNoValues.with(SavedValue::kNorms)),
              ElementsAre("norm1", "rstd1", "norm2", "rstd2"));
  EXPECT_THAT(llama.ListOf(kAllValues), ElementsAre("all"));
  EXPECT_THAT(llama.ListOf(kNoValues), IsEmpty());
  EXPECT_THAT(SavedNames(model::Family::kGpt2).ListOf(kNoValues.with(SavedValue::kUp)),
              ElementsAre("up"));
  EXPECT_THAT(SavedNames(model::Family::kQwen3).ListOf(kNoValues.with(SavedValue::kQkv)),
              ElementsAre("projected", "heads_rstd"));
  EXPECT_THAT(SavedNames(model::Family::kGemma2).ListOf(kNoValues.with(SavedValue::kResidual)),
              ElementsAre("attended", "attended_rstd", "down", "down_rstd"));
}

TEST(SavedNamesTest, ListsAreReadBackInEveryFamily) {
  for (const model::Family family : model::AllFamilies()) {
    const SavedNames names(family);
    for (int bits = 0; bits < 1 << kSavedValues; ++bits) {
      const SavedValues values = {static_cast<uint8_t>(bits)};
      EXPECT_EQ(names.ValuesOf(names.ListOf(values)), values) << bits;
    }
  }
  // Its row sums would be made by attention once more.
  EXPECT_EQ(SavedNames().ValuesOf({"qkv", "attention"}), kNoValues.with(SavedValue::kQkv));
}

TEST(SavedNamesTest, LayoutsAndJobsSayTheSame) {
  const SavedNames names;
  LayoutChoice layout{.recompute = Recompute::kListed, .saved = kQkvAndAttention};
  EXPECT_EQ(RecomputeText(RecomputeOf(layout, names)), "{save: [qkv, attention, log_sum_exp]}");
  layout.listed_layers = 12;
  const v1::RecomputeSpec spec = RecomputeOf(layout, names);
  EXPECT_EQ(RecomputeText(spec), "{save: [qkv, attention, log_sum_exp], layers: 0-11}");
  LayoutChoice back;
  SetRecompute(spec, names, 32, back);
  EXPECT_EQ(back.recompute, Recompute::kListed);
  EXPECT_EQ(back.saved, kQkvAndAttention);
  EXPECT_EQ(back.listed_layers, 12);
  back = {};
  SetRecompute(spec, names, 12, back);  // that is all of them
  EXPECT_EQ(back.listed_layers, 0);
}

TEST(SavedNamesTest, ListsThatSayWhatAModeDoesAreThatMode) {
  const SavedNames names;
  v1::RecomputeSpec spec;
  for (const std::string& name : names.ListOf(kValuesWithoutAttention)) spec.add_save(name);
  LayoutChoice layout;
  SetRecompute(spec, names, 32, layout);
  EXPECT_EQ(layout.recompute, Recompute::kSelective);
  spec.clear_save();
  SetRecompute(spec, names, 32, layout);
  EXPECT_EQ(layout.recompute, Recompute::kFull);
  spec.mutable_layers()->set_first(2);
  spec.mutable_layers()->set_last(3);
  SetRecompute(spec, names, 32, layout);
  EXPECT_EQ(layout.recompute, Recompute::kListed);
  EXPECT_EQ(layout.saved, kNoValues);
  EXPECT_EQ(layout.listed_layers, 2);
  EXPECT_EQ(RecomputeText(RecomputeOf(layout, names)), "{save: [], layers: 0-1}");
}

}  // namespace
}  // namespace strata::planner
