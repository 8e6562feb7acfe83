#include "kernels/layernorm.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/layernorm.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kLayerEpsilon = 1e-5f;
constexpr LayerNormShape kLayerShapes[] = {{1, 1}, {3, 7}, {5, 8}, {33, 50}, {70, 192}, {1, 5461}};

// x away from zero, so that a variance around anything but the mean shows.
template <typename T>
std::vector<T> Rows(const LayerNormShape& shape, uint64_t key) {
  Floats x = testing::Random(shape.rows * shape.channels, key, 2);
  for (float& value : x) value += 5;
  return testing::As<T>(x);
}

template <typename T>
void ExpectForward() {
  for (const LayerNormShape& shape : kLayerShapes) {
    const std::vector<T> x = Rows<T>(shape, 1), branch = testing::RandomOf<T>(x.size(), 4);
    const std::vector<T> w = testing::RandomOf<T>(shape.channels, 2);
    const std::vector<T> b = testing::RandomOf<T>(shape.channels, 3);
    Floats statistics(shape.rows * 2);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      std::vector<T> y(x.size()), replayed = x, sum = x, y_of_sum(x.size()), y_again(x.size());
      LayerNormForward(c, shape, kLayerEpsilon, x.data(), w.data(), b.data(), y.data(),
                       statistics.data());
      LayerNormReplay(c, shape, replayed.data(), w.data(), b.data(), statistics.data(),
                      replayed.data());
      EXPECT_TRUE(testing::SameBits(testing::Back(y), testing::Back(replayed)));
      // Adding first gives the bits of an addition, then a norm.
      Floats of_sum(statistics.size()), again(statistics.size());
      AddLayerNormForward(c, shape, kLayerEpsilon, sum.data(), branch.data(), w.data(), b.data(),
                          sum.data(), y_of_sum.data(), of_sum.data());
      Floats added = testing::Back(x);
      for (size_t i = 0; i < added.size(); ++i) added[i] += ToFloat(branch[i]);
      EXPECT_TRUE(testing::SameBits(testing::Back(sum), testing::Back(testing::As<T>(added))));
      LayerNormForward(c, shape, kLayerEpsilon, sum.data(), w.data(), b.data(), y_again.data(),
                       again.data());
      EXPECT_TRUE(testing::SameBits(testing::Back(y_of_sum), testing::Back(y_again)));
      EXPECT_TRUE(testing::SameBits(of_sum, again));
      return testing::Back(y);
    });
    const reference::LayerNorm expected =
        reference::LayerNormForward(shape.rows, shape.channels, kLayerEpsilon, testing::WidenOf(x),
                                    testing::WidenOf(w), testing::WidenOf(b));
    testing::ExpectRounded<T>(result, expected.y, shape.channels == 1 ? 1e-4 : 2e-6);
    testing::ExpectClose(statistics, expected.statistics, 1e-6);
  }
}

TEST(LayerNorm, ForwardReplayAndAddition_MatchTheReference) {
  ExpectForward<float>();
  ExpectForward<BFloat16>();
  ExpectForward<Float16>();
}

template <typename T>
void ExpectBackward(bool accumulate) {
  for (const LayerNormShape& shape : kLayerShapes) {
    if (shape.channels == 1) continue;
    const std::vector<T> x = Rows<T>(shape, 1), dy = testing::RandomOf<T>(x.size(), 2);
    const std::vector<T> w = testing::RandomOf<T>(shape.channels, 3);
    const std::vector<T> before = testing::RandomOf<T>(x.size(), 4);
    const Floats dw_before = testing::Random(shape.channels, 5);
    const Doubles zero(shape.channels), wide_x = testing::WidenOf(x);
    const Doubles statistics =
        reference::LayerNormForward(shape.rows, shape.channels, kLayerEpsilon, wide_x,
                                    testing::WidenOf(w), zero)
            .statistics;
    const Floats given(statistics.begin(), statistics.end());
    Floats weights;
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      std::vector<T> dx = before, frozen = before;
      Floats dw = dw_before, db = dw_before;
      testing::Workspace workspace(LayerNormBackwardWorkspaceBytes(shape));
      LayerNormBackward(c, shape, dy.data(), x.data(), w.data(), given.data(), accumulate,
                        dx.data(), dw.data(), db.data(), workspace.get());
      LayerNormBackward(c, shape, dy.data(), x.data(), w.data(), given.data(), accumulate,
                        frozen.data(), nullptr, nullptr, nullptr);
      EXPECT_TRUE(testing::SameBits(testing::Back(dx), testing::Back(frozen)));
      weights = testing::Concat({dw, db});
      return testing::Concat({testing::Back(dx), weights});
    });
    reference::LayerNormGradient expected = reference::LayerNormBackward(
        shape.rows, shape.channels, testing::WidenOf(dy), wide_x, testing::WidenOf(w), statistics);
    for (size_t i = 0; accumulate && i < before.size(); ++i) {
      expected.dx[i] += ToFloat(before[i]);
    }
    for (int64_t i = 0; i < shape.channels; ++i) {
      expected.dw[i] += dw_before[i];
      expected.db[i] += dw_before[i];
    }
    testing::ExpectRounded<T>(Floats(result.begin(), result.begin() + x.size()), expected.dx, 3e-6);
    testing::ExpectClose(weights, testing::Concat({expected.dw, expected.db}), 3e-6);
  }
}

TEST(LayerNorm, BackwardMatchesTheReferenceAccumulatesAndLeavesFrozenWeights) {
  for (const bool accumulate : {false, true}) {
    ExpectBackward<float>(accumulate);
    ExpectBackward<BFloat16>(accumulate);
    ExpectBackward<Float16>(accumulate);
  }
}

TEST(LayerNorm, ReferenceBackwardMatchesFiniteDifferences) {
  const int64_t rows = 3, channels = 7;
  const Doubles x = testing::Widen(testing::Random(rows * channels, 1));
  const Doubles w = testing::Widen(testing::Random(channels, 2));
  const Doubles b = testing::Widen(testing::Random(channels, 3));
  const Doubles dy = testing::Widen(testing::Random(rows * channels, 4));
  const auto value = [&](const Doubles& x, const Doubles& w, const Doubles& b) {
    return testing::Dot(dy, reference::LayerNormForward(rows, channels, kLayerEpsilon, x, w, b).y);
  };
  const reference::LayerNormGradient gradient = reference::LayerNormBackward(
      rows, channels, dy, x, w,
      reference::LayerNormForward(rows, channels, kLayerEpsilon, x, w, b).statistics);
  testing::ExpectClose(
      gradient.dx, testing::FiniteDifferences(x, [&](const Doubles& v) { return value(v, w, b); }),
      1e-7);
  testing::ExpectClose(
      gradient.dw, testing::FiniteDifferences(w, [&](const Doubles& v) { return value(x, v, b); }),
      1e-7);
  testing::ExpectClose(
      gradient.db, testing::FiniteDifferences(b, [&](const Doubles& v) { return value(x, w, v); }),
      1e-7);
}

}  // namespace
}  // namespace strata::kernels
