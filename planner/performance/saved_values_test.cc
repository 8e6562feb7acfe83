#include "planner/performance/saved_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/performance/layer_cost.h"
#include "planner/performance/memory_estimate.h"
#include "planner/performance/performance_testing.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {
namespace {

ByValue<double> SecondsOf(const LayoutChoice& layout) {
  const ByValue<PassCost> replays = ReplayCosts(RoundMachine(), SmallShape(), KeyOf(layout));
  ByValue<double> seconds;
  for (int v = 0; v < kSavedValues; ++v) seconds[v] = replays[v].total();
  return seconds;
}

std::vector<LayoutChoice> Layouts() {
  std::vector<LayoutChoice> layouts(4);
  layouts[1] = SmallLayout();
  layouts[2].context = 4;
  layouts[2].micro_batch = 3;
  layouts[3].tensor = 8;
  layouts[3].sequence_parallel = true;
  return layouts;
}

TEST(SavedValuesTest, DownALadderBytesFallAndSecondsRise) {
  for (const LayoutChoice& layout : Layouts()) {
    const ByValue<double> bytes = ValueBytes(SmallShape(), layout), seconds = SecondsOf(layout);
    const std::vector<SavedValues> ladder = LadderOf(bytes, seconds);
    EXPECT_EQ(ladder.front(), kAllValues);
    EXPECT_EQ(ladder.back(), kNoValues);
    for (size_t i = 1; i < ladder.size(); ++i) {
      EXPECT_LT(SumOf(bytes, ladder[i]), SumOf(bytes, ladder[i - 1]));
      EXPECT_LT(SumOf(seconds, ladder[i]), SumOf(seconds, ladder[i - 1]));  // of what is saved
    }
  }
}

// The greedy order of a knapsack whose items may be cut (Dantzig, Operations Research 5, 1957).
TEST(SavedValuesTest, ALadderHasWhatDroppingTheCheapestPerByteLeaves) {
  for (const LayoutChoice& layout : Layouts()) {
    const ByValue<double> bytes = ValueBytes(SmallShape(), layout), seconds = SecondsOf(layout);
    const std::vector<SavedValues> ladder = LadderOf(bytes, seconds);
    ByValue<int> order;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return seconds[a] / bytes[a] < seconds[b] / bytes[b]; });
    SavedValues left = kAllValues;
    for (const int dropped : order) {
      left = left.without(static_cast<SavedValue>(dropped));
      EXPECT_TRUE(std::find(ladder.begin(), ladder.end(), left) != ladder.end()) << dropped;
    }
  }
}

TEST(SavedValuesTest, NoSetOfAsFewBytesTakesLessTimeThanARung) {
  for (const LayoutChoice& layout : Layouts()) {
    const ByValue<double> bytes = ValueBytes(SmallShape(), layout), seconds = SecondsOf(layout);
    for (const SavedValues rung : LadderOf(bytes, seconds)) {
      for (int bits = 0; bits < 1 << kSavedValues; ++bits) {
        const SavedValues other = {static_cast<uint8_t>(bits)};
        if (SumOf(bytes, other) > SumOf(bytes, rung)) continue;
        EXPECT_LE(SumOf(seconds, other), SumOf(seconds, rung) * (1 + 1e-9)) << bits;
      }
    }
  }
}

// A token of SmallShape: 4,096 wide, 32 heads, 8 of keys and values, 14,336 in the block.
TEST(SavedValuesTest, BytesOfEachValueAreWhatOneWorksOutByHand) {
  const ByValue<double> bytes = ValueBytes(SmallShape(), {});
  const ByValue<double> token = {4 * 4096.0, 2 * (4096 + 2 * 1024.0), 2 * 4096.0 + 4 * 32,
                                 2 * 4096.0, 2 * 2 * 14336.0,         2 * 14336.0};
  for (int v = 0; v < kSavedValues; ++v) EXPECT_DOUBLE_EQ(bytes[v], 8192 * token[v]) << v;
  Software own;
  own.saves_by_value = true;
  LayoutChoice layout;
  const double input = 8192 * 2 * 4096.0;
  EXPECT_DOUBLE_EQ(ActivationBytes(own, SmallShape(), layout), input + SumOf(bytes, kUsualValues));
  layout.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(ActivationBytes(own, SmallShape(), layout), input);
  layout.recompute = Recompute::kListed;
  layout.saved = kAllValues;
  layout.listed_layers = 8;  // of 32
  EXPECT_DOUBLE_EQ(ActivationBytes(own, SmallShape(), layout),
                   input + SumOf(bytes, kUsualValues) + 0.25 * (bytes[0] + bytes[5]));
}

// All but the last product, its sum over tensor ranks and the last residual, which no backward
// reads.
TEST(SavedValuesTest, FullRecomputeMakesAgainWhatTheBackwardReads) {
  Machine own = RoundMachine();
  own.software.saves_by_value = true;
  LayoutChoice layout = SmallLayout();
  layout.recompute = Recompute::kFull;
  const LayerCost cost = CostOfLayer(own, SmallShape(), KeyOf(layout));
  layout.recompute = Recompute::kListed;
  layout.saved = kAllValues;
  const LayerCost plain = CostOfLayer(own, SmallShape(), KeyOf(layout));
  const double again = cost.backward.products - plain.backward.products;
  const double down = 14336.0, all = 6144.0 + 4096 + 3 * down;  // by 4,096 columns or rows
  EXPECT_NEAR(again / cost.forward.products, 1 - down / all, 0.01);
  EXPECT_DOUBLE_EQ(cost.backward.attention - plain.backward.attention, cost.forward.attention);
  EXPECT_LT(cost.backward.tensor - plain.backward.tensor, cost.forward.tensor);
  EXPECT_GT(cost.backward.tensor - plain.backward.tensor, 0.5 * cost.forward.tensor);
}

TEST(SavedValuesTest, LayersThatAListIsForCountForTheirShare) {
  Machine own = RoundMachine();
  own.software.saves_by_value = true;
  LayoutChoice layout = SmallLayout();
  layout.pipeline = 1;
  const auto seconds = [&](Recompute recompute, int64_t layers) {
    layout.recompute = recompute;
    layout.saved = kNoValues;
    layout.listed_layers = layers;
    return PredictStep(own, SmallShape(), layout).seconds;
  };
  const double none = seconds(Recompute::kNone, 0), full = seconds(Recompute::kFull, 0);
  EXPECT_NEAR(seconds(Recompute::kListed, 8), none + 0.25 * (full - none), 1e-9 * full);
  EXPECT_DOUBLE_EQ(seconds(Recompute::kListed, 0), full);
}

TEST(SavedValuesTest, ModesAreTheSetsThatTheySave) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_EQ(ModeOf(SavedBy(mode, kAllValues)), mode);
  }
  EXPECT_EQ(ModeOf(kAllValues), Recompute::kListed);
}

}  // namespace
}  // namespace strata::planner
