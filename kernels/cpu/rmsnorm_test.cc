#include "kernels/rmsnorm.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/rmsnorm.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kEpsilon = 1e-5f;
constexpr struct {
  int64_t rows, channels;
} kNormShapes[] = {{1, 1}, {3, 7}, {5, 8}, {33, 50}, {70, 192}, {129, 100}};

// y, then rstd.
Doubles Reference(int64_t rows, int64_t channels, const Doubles& x, const Doubles& w) {
  const reference::RmsNorm norm = reference::RmsNormForward(rows, channels, kEpsilon, x, w);
  return testing::Concat({norm.y, norm.rstd});
}

TEST(RmsNorm, ForwardMatchesTheReference) {
  for (const auto [rows, channels] : kNormShapes) {
    const Floats x = testing::Random(rows * channels, 1, 3), w = testing::Random(channels, 2);
    const Floats result = testing::RunWithThreads([&, rows = rows, channels = channels](auto& c) {
      Floats y(rows * channels), rstd(rows);
      RmsNormForward(c, {rows, channels}, kEpsilon, x.data(), w.data(), y.data(), rstd.data());
      return testing::Concat({y, rstd});
    });
    testing::ExpectClose(result, Reference(rows, channels, testing::Widen(x), testing::Widen(w)),
                         5e-7);
  }
}

TEST(RmsNorm, AddAndNormEqualsAddThenNormBitForBit) {
  for (const auto [rows, channels] : kNormShapes) {
    const Floats x = testing::Random(rows * channels, 1), branch = testing::Random(x.size(), 2);
    const Floats w = testing::Random(channels, 3);
    const Floats result = testing::RunWithThreads([&, rows = rows, channels = channels](auto& c) {
      Floats sum = x, y(rows * channels), rstd(rows);
      AddRmsNormForward(c, {rows, channels}, kEpsilon, sum.data(), branch.data(), w.data(),
                        sum.data(), y.data(), rstd.data());
      return testing::Concat({sum, y, rstd});
    });
    Floats sum = x, y(x.size()), rstd(rows);
    for (size_t i = 0; i < x.size(); ++i) sum[i] += branch[i];
    device::ThreadPool pool(1);
    RmsNormForward({&pool}, {rows, channels}, kEpsilon, sum.data(), w.data(), y.data(),
                   rstd.data());
    EXPECT_TRUE(testing::SameBits(result, testing::Concat({sum, y, rstd})));
  }
}

TEST(RmsNorm, ReplayGivesTheForwardsBitsAlsoInPlace) {
  for (const auto [rows, channels] : kNormShapes) {
    const Floats x = testing::Random(rows * channels, 1, 3), w = testing::Random(channels, 2);
    const Floats result = testing::RunWithThreads([&, rows = rows, channels = channels](auto& c) {
      Floats y(x.size()), rstd(rows), replayed(x.size()), in_place = x;
      RmsNormForward(c, {rows, channels}, kEpsilon, x.data(), w.data(), y.data(), rstd.data());
      RmsNormReplay(c, {rows, channels}, x.data(), w.data(), rstd.data(), replayed.data());
      RmsNormReplay(c, {rows, channels}, in_place.data(), w.data(), rstd.data(), in_place.data());
      EXPECT_TRUE(testing::SameBits(y, replayed));
      EXPECT_TRUE(testing::SameBits(y, in_place));
      return replayed;
    });
    // From any other rstd, so that none is computed again.
    const Floats rstd = testing::Random(rows, 7);
    Floats scaled(x.size());
    device::ThreadPool pool(1);
    RmsNormReplay({&pool}, {rows, channels}, x.data(), w.data(), rstd.data(), scaled.data());
    testing::ExpectClose(scaled,
                         reference::RmsNormReplay(rows, channels, testing::Widen(x),
                                                  testing::Widen(w), testing::Widen(rstd)),
                         5e-7);
  }
}

TEST(RmsNorm, BackwardMatchesFiniteDifferencesAndAccumulates) {
  for (const auto [rows, channels] : kNormShapes) {
    if (rows * channels > 2000) continue;
    const Floats x = testing::Random(rows * channels, 1), w = testing::Random(channels, 2);
    const Floats dy = testing::Random(x.size(), 3), before = testing::Random(x.size(), 4);
    const Floats dw_before = testing::Random(channels, 5);
    for (const bool accumulate : {false, true}) {
      const Floats result = testing::RunWithThreads([&, rows = rows,
                                                     channels = channels](const Context& c) {
        Floats y(x.size()), rstd(rows), dx = before, dw = dw_before;
        RmsNormForward(c, {rows, channels}, kEpsilon, x.data(), w.data(), y.data(), rstd.data());
        testing::Workspace workspace(RmsNormBackwardWorkspaceBytes(rows, channels));
        RmsNormBackward(c, {rows, channels}, dy.data(), x.data(), w.data(), rstd.data(), accumulate,
                        dx.data(), dw.data(), workspace.get());
        return testing::Concat({dx, dw});
      });
      const Doubles wide_x = testing::Widen(x), wide_w = testing::Widen(w);
      const Doubles weights = testing::Widen(dy);
      Doubles dx =
          testing::FiniteDifferences(wide_x, [&, r = rows, n = channels](const Doubles& v) {
            return testing::Dot(weights, Reference(r, n, v, wide_w));
          });
      Doubles dw =
          testing::FiniteDifferences(wide_w, [&, r = rows, n = channels](const Doubles& v) {
            return testing::Dot(weights, Reference(r, n, wide_x, v));
          });
      const reference::RmsNormGradient gradient = reference::RmsNormBackward(
          rows, channels, weights, wide_x, wide_w,
          reference::RmsNormForward(rows, channels, kEpsilon, wide_x, wide_w).rstd);
      testing::ExpectClose(gradient.dx, dx, 1e-7);
      testing::ExpectClose(gradient.dw, dw, 1e-7);
      for (size_t i = 0; accumulate && i < dx.size(); ++i) dx[i] += before[i];
      for (size_t i = 0; i < dw.size(); ++i) dw[i] += dw_before[i];
      testing::ExpectClose(result, testing::Concat({dx, dw}), 3e-6);
    }
  }
}

TEST(RmsNorm, WeightGradientOverManyBlocksOfRowsMatchesTheReference) {
  const int64_t rows = 1000, channels = 70;
  const Floats x = testing::Random(rows * channels, 1), dy = testing::Random(x.size(), 2);
  const Floats w(channels, 1.0f), rstd = testing::Random(rows, 3);
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    Floats dx = dy, dw(channels, 0.0f);
    testing::Workspace workspace(RmsNormBackwardWorkspaceBytes(rows, channels));
    RmsNormBackward(c, {rows, channels}, dx.data(), x.data(), w.data(), rstd.data(), false,
                    dx.data(), dw.data(), workspace.get());
    return dw;
  });
  const Doubles dw =
      reference::RmsNormBackward(rows, channels, testing::Widen(dy), testing::Widen(x),
                                 testing::Widen(w), testing::Widen(rstd))
          .dw;
  testing::ExpectClose(result, dw, 1e-6);
}

// Every kernel of a type, with weights and with 1 + weights.
template <typename T>
void ExpectNorms(bool plus_one) {
  for (const auto [rows, channels] : kNormShapes) {
    const RmsNormShape shape{rows, channels, plus_one};
    const std::vector<T> x = testing::RandomOf<T>(rows * channels, 1, 3);
    const std::vector<T> branch = testing::RandomOf<T>(x.size(), 2);
    const std::vector<T> w = testing::RandomOf<T>(channels, 3);
    const Floats dw_before = testing::Random(channels, 4);
    std::vector<T> sum(x.size());
    Floats rstd(shape.rows), dw;
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      std::vector<T> y(x.size()), again(x.size()), replayed = x, dx = branch, frozen = branch;
      AddRmsNormForward(c, shape, kEpsilon, x.data(), branch.data(), w.data(), sum.data(), y.data(),
                        rstd.data());
      RmsNormForward(c, shape, kEpsilon, sum.data(), w.data(), again.data(), rstd.data());
      EXPECT_TRUE(testing::SameBits(testing::Back(y), testing::Back(again)));
      RmsNormReplay(c, shape, sum.data(), w.data(), rstd.data(), replayed.data());
      EXPECT_TRUE(testing::SameBits(testing::Back(y), testing::Back(replayed)));
      testing::Workspace workspace(RmsNormBackwardWorkspaceBytes(shape.rows, shape.channels));
      dw = dw_before;
      RmsNormBackward(c, shape, x.data(), sum.data(), w.data(), rstd.data(), true, dx.data(),
                      dw.data(), workspace.get());
      RmsNormBackward<T>(c, shape, x.data(), sum.data(), w.data(), rstd.data(), true, frozen.data(),
                         nullptr, nullptr);
      EXPECT_TRUE(testing::SameBits(testing::Back(dx), testing::Back(frozen)));
      return testing::Concat({testing::Back(y), testing::Back(dx), dw});
    });
    Doubles weights = testing::WidenOf(w);
    for (double& weight : weights) weight += plus_one ? 1 : 0;
    const reference::RmsNorm norm =
        reference::RmsNormForward(rows, channels, kEpsilon, testing::WidenOf(sum), weights);
    reference::RmsNormGradient gradient = reference::RmsNormBackward(
        rows, channels, testing::WidenOf(x), testing::WidenOf(sum), weights, norm.rstd);
    for (size_t i = 0; i < x.size(); ++i) gradient.dx[i] += ToFloat(branch[i]);
    for (int64_t i = 0; i < channels; ++i) gradient.dw[i] += dw_before[i];
    const auto part = [&](size_t i) {
      return Floats(result.begin() + i * x.size(), result.begin() + (i + 1) * x.size());
    };
    testing::ExpectRounded<T>(part(0), norm.y, 1e-6);
    testing::ExpectRounded<T>(part(1), gradient.dx, 3e-6);
    testing::ExpectClose(dw, gradient.dw, 3e-6);
  }
}

TEST(RmsNorm, OfEveryTypeWithWeightsOrOneMore_MatchesTheReference) {
  for (const bool plus_one : {false, true}) {
    ExpectNorms<float>(plus_one);
    ExpectNorms<BFloat16>(plus_one);
    ExpectNorms<Float16>(plus_one);
  }
}

}  // namespace
}  // namespace strata::kernels
