// Layer and head norms, biases, activations, positions and soft caps against formulas in double;
// numbers of 16 bits against the kernels on floats.
#include <cmath>
#include <functional>

#include "kernels/activation.h"
#include "kernels/bias.h"
#include "kernels/cpu/test_util.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/headnorm.h"
#include "kernels/layernorm.h"
#include "kernels/number_types.h"
#include "kernels/rmsnorm.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kDenseEpsilon = 1e-5f;

template <typename T>
std::vector<T> Narrow(const Floats& values) {
  std::vector<T> narrow;
  for (const float value : values) narrow.push_back(FromFloat<T>(value));
  return narrow;
}
template <typename T>
Floats Float(const std::vector<T>& values) {
  Floats wide;
  for (const T value : values) wide.push_back(ToFloat(value));
  return wide;
}

Doubles LayerNorm(int64_t channels, const Doubles& x, const Doubles& w, const Doubles& b) {
  Doubles y(x.size());
  for (size_t row = 0; row < x.size(); row += channels) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < channels; ++i) mean += x[row + i] / channels;
    for (int64_t i = 0; i < channels; ++i) variance += std::pow(x[row + i] - mean, 2) / channels;
    const double rstd = 1 / std::sqrt(variance + kDenseEpsilon);
    for (int64_t i = 0; i < channels; ++i) y[row + i] = (x[row + i] - mean) * rstd * w[i] + b[i];
  }
  return y;
}

constexpr LayerNormShape kLayerNorms[] = {{1, 3}, {3, 7}, {33, 50}, {70, 24}};

TEST(LayerNorm, ForwardAddAndReplayMatchTheFormula) {
  for (const LayerNormShape& shape : kLayerNorms) {
    const int64_t size = shape.rows * shape.channels;
    Floats x = testing::Random(size, 1, 3), w = testing::Random(shape.channels, 2);
    const Floats b = testing::Random(shape.channels, 3), branch = testing::Random(size, 4);
    for (float& value : x) value += 10;  // far from 0: the variance must not cancel
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats y(size), statistics(2 * shape.rows), again(size);
      LayerNormForward(c, shape, kDenseEpsilon, x.data(), w.data(), b.data(), y.data(),
                       statistics.data());
      LayerNormReplay(c, shape, x.data(), w.data(), b.data(), statistics.data(), again.data());
      EXPECT_TRUE(testing::SameBits(y, again));
      return y;
    });
    testing::ExpectClose(
        result, LayerNorm(shape.channels, testing::Widen(x), testing::Widen(w), testing::Widen(b)),
        3e-6);
    device::ThreadPool pool(1);
    Floats sum(size), y(size), added = x, statistics(2 * shape.rows), expected(size);
    AddLayerNormForward({&pool}, shape, kDenseEpsilon, x.data(), branch.data(), w.data(), b.data(),
                        sum.data(), y.data(), statistics.data());
    for (int64_t i = 0; i < size; ++i) added[i] += branch[i];
    LayerNormForward({&pool}, shape, kDenseEpsilon, added.data(), w.data(), b.data(),
                     expected.data(), statistics.data());
    EXPECT_TRUE(testing::SameBits(sum, added));
    EXPECT_TRUE(testing::SameBits(y, expected));
  }
}

TEST(LayerNorm, BackwardMatchesFiniteDifferencesAndAccumulates) {
  for (const LayerNormShape& shape : kLayerNorms) {
    const int64_t size = shape.rows * shape.channels;
    const Floats x = testing::Random(size, 1), w = testing::Random(shape.channels, 2),
                 b = testing::Random(shape.channels, 3), dy = testing::Random(size, 4),
                 before = testing::Random(size, 5);
    const Doubles wx = testing::Widen(x), ww = testing::Widen(w), wb = testing::Widen(b),
                  weights = testing::Widen(dy);
    const auto value = [&](const Doubles& vx, const Doubles& vw, const Doubles& vb) {
      return testing::Dot(weights, LayerNorm(shape.channels, vx, vw, vb));
    };
    Doubles dx = testing::FiniteDifferences(wx, [&](const Doubles& v) { return value(v, ww, wb); });
    const Doubles dw =
        testing::FiniteDifferences(ww, [&](const Doubles& v) { return value(wx, v, wb); });
    const Doubles db =
        testing::FiniteDifferences(wb, [&](const Doubles& v) { return value(wx, ww, v); });
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats y(size), statistics(2 * shape.rows), to = before, gw(shape.channels),
                                                  gb(shape.channels);
      LayerNormForward(c, shape, kDenseEpsilon, x.data(), w.data(), b.data(), y.data(),
                       statistics.data());
      testing::Workspace workspace(LayerNormBackwardWorkspaceBytes(shape));
      LayerNormBackward(c, shape, dy.data(), x.data(), w.data(), statistics.data(), true, to.data(),
                        gw.data(), gb.data(), workspace.get());
      Floats frozen = before;
      LayerNormBackward<float>(c, shape, dy.data(), x.data(), w.data(), statistics.data(), true,
                               frozen.data(), nullptr, nullptr, nullptr);
      EXPECT_TRUE(testing::SameBits(frozen, to));
      return testing::Concat({to, gw, gb});
    });
    for (size_t i = 0; i < dx.size(); ++i) dx[i] += before[i];
    testing::ExpectClose(result, testing::Concat({dx, dw, db}), 2e-5);
  }
}

// Queries' and keys' heads normed, values copied.
Doubles HeadNorm(const HeadNormShape& s, const Doubles& qkv, const Doubles& wq, const Doubles& wk) {
  Doubles out = qkv;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t head = 0; head < s.norms(); ++head) {
      double* const x = out.data() + row * s.width() + head * s.head_size;
      double mean = 0;
      for (int64_t i = 0; i < s.head_size; ++i) mean += x[i] * x[i] / s.head_size;
      const Doubles& w = head < s.heads ? wq : wk;
      for (int64_t i = 0; i < s.head_size; ++i) {
        x[i] *= (w[i] + (s.plus_one ? 1 : 0)) / std::sqrt(mean + kDenseEpsilon);
      }
    }
  }
  return out;
}

TEST(HeadNorm, ForwardReplayAndBackwardMatchTheFormula) {
  for (const HeadNormShape& s :
       {HeadNormShape{3, 3, 1, 10, false}, HeadNormShape{35, 2, 2, 40, true},
        HeadNormShape{1, 4, 2, 8, true}}) {
    const int64_t size = s.rows * s.width();
    const Floats qkv = testing::Random(size, 1), wq = testing::Random(s.head_size, 2),
                 wk = testing::Random(s.head_size, 3), dout = testing::Random(size, 4);
    const Doubles x = testing::Widen(qkv), q = testing::Widen(wq), k = testing::Widen(wk),
                  weights = testing::Widen(dout);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats out(size), rstd(s.rows * s.norms()), again(size), dqkv = dout, dwq(s.head_size),
                                                               dwk(s.head_size);
      HeadNormForward(c, s, kDenseEpsilon, qkv.data(), wq.data(), wk.data(), out.data(),
                      rstd.data());
      HeadNormReplay(c, s, qkv.data(), wq.data(), wk.data(), rstd.data(), again.data());
      EXPECT_TRUE(testing::SameBits(out, again));
      testing::Workspace workspace(HeadNormBackwardWorkspaceBytes(s));
      HeadNormBackward(c, s, dqkv.data(), qkv.data(), wq.data(), wk.data(), rstd.data(),
                       dqkv.data(), dwq.data(), dwk.data(), workspace.get());
      return testing::Concat({out, dqkv, dwq, dwk});
    });
    const auto value = [&](const Doubles& v, const Doubles& vq, const Doubles& vk) {
      return testing::Dot(weights, HeadNorm(s, v, vq, vk));
    };
    const auto differences = [](const Doubles& at, const std::function<double(const Doubles&)>& f) {
      return testing::FiniteDifferences(at, f);
    };
    testing::ExpectClose(
        result,
        testing::Concat({HeadNorm(s, x, q, k),
                         differences(x, [&](const Doubles& v) { return value(v, q, k); }),
                         differences(q, [&](const Doubles& v) { return value(x, v, k); }),
                         differences(k, [&](const Doubles& v) { return value(x, q, v); })}),
        2e-5);
  }
}

double Exact(Function function, double x) {
  switch (function) {
    case Function::kSilu:
      return x / (1 + std::exp(-x));
    case Function::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Function::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(2));
  }
  return 0;
}

TEST(Activation, ValuesAndSlopesMatchTheFormulas) {
  Floats x;
  for (int i = -1200; i <= 1200; ++i) x.push_back(static_cast<float>(i) / 100);
  const int64_t count = static_cast<int64_t>(x.size());
  for (const Function function : {Function::kSilu, Function::kGeluTanh, Function::kGelu}) {
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      const Floats ones(count, 1.0f);
      Floats h(count), dx(count);
      ActivationForward(c, count, function, x.data(), h.data());
      ActivationBackward(c, count, function, ones.data(), x.data(), dx.data());
      return testing::Concat({h, dx});
    });
    for (int64_t i = 0; i < count; ++i) {
      const double at = x[i], exact = Exact(function, at);
      const double slope = (Exact(function, at + 1e-6) - Exact(function, at - 1e-6)) / 2e-6;
      ASSERT_NEAR(result[i], exact, 1e-6 * std::abs(exact) + 1e-9) << at;
      ASSERT_NEAR(result[count + i], slope, 2e-6) << at;
    }
  }
}

TEST(Activation, GatedOnesMultiplyByTheOtherHalf) {
  const int64_t rows = 5, ffn = 13;
  const Floats gate_up = testing::Random(rows * 2 * ffn, 1, 2), dh = testing::Random(rows * ffn, 2);
  for (const Function function : {Function::kGeluTanh, Function::kGelu}) {
    const auto forward = [&](const Doubles& v) {
      Doubles h(rows * ffn);
      for (int64_t i = 0; i < rows * ffn; ++i) {
        const int64_t at = i / ffn * 2 * ffn + i % ffn;
        h[i] = Exact(function, v[at]) * v[at + ffn];
      }
      return h;
    };
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats h(rows * ffn), gradient = gate_up;
      GatedForward(c, rows, ffn, function, gate_up.data(), h.data());
      GatedBackward(c, rows, ffn, function, dh.data(), gradient.data(), gradient.data());
      return testing::Concat({h, gradient});
    });
    const Doubles x = testing::Widen(gate_up), weights = testing::Widen(dh);
    testing::ExpectClose(
        result,
        testing::Concat(
            {forward(x),
             testing::FiniteDifferences(
                 x, [&](const Doubles& v) { return testing::Dot(weights, forward(v)); })}),
        3e-6);
  }
}

TEST(Bias, IsAddedToEveryRowAndItsGradientSumsThem) {
  const int64_t rows = 77, width = 19;
  const Floats y = testing::Random(rows * width, 1), b = testing::Random(width, 2);
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    Floats sum = y, db = b;
    AddBias(c, rows, width, b.data(), sum.data());
    testing::Workspace workspace(BiasGradientWorkspaceBytes(rows, width));
    BiasGradient(c, rows, width, y.data(), db.data(), workspace.get());
    return testing::Concat({sum, db});
  });
  Doubles expected = testing::Widen(y), db = testing::Widen(b);
  for (int64_t i = 0; i < rows * width; ++i) {
    db[i % width] += y[i];
    expected[i] += b[i % width];
  }
  testing::ExpectClose(result, testing::Concat({expected, db}), 1e-6);
}

TEST(Positions, RowsOfTheTableByPlaceInTheSequenceOrByDocument) {
  const PositionsShape shape{.rows = 6, .sequence = 4, .channels = 5, .first = 2};
  const Floats table = testing::Random(4 * 5, 1), y = testing::Random(6 * 5, 2);
  const std::vector<int32_t> by_place = {2, 3, 0, 1, 2, 3}, documents = {0, 1, 0, 1, 2, 0};
  for (const auto* positions : {&by_place, &documents}) {
    const int32_t* given = positions == &documents ? documents.data() : nullptr;
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats sum = y, gradient(table.size());
      AddPositions(c, shape, table.data(), given, sum.data());
      PositionsGradient(c, shape, y.data(), given, gradient.data());
      return testing::Concat({sum, gradient});
    });
    Doubles sum = testing::Widen(y), gradient(table.size());
    for (int64_t i = 0; i < 30; ++i) {
      const int64_t at = (*positions)[i / 5] * 5 + i % 5;
      sum[i] += table[at];
      gradient[at] += y[i];
    }
    testing::ExpectClose(result, testing::Concat({sum, gradient}), 1e-6);
  }
}

TEST(Softcap, BoundsLogitsAndTheLossSeesTheCappedOnes) {
  const float cap = 3;
  const int64_t rows = 4, vocab = 21;
  const Floats logits = testing::Random(rows * vocab, 1, 5);
  const std::vector<int32_t> targets = {3, -1, 20, 0};
  const auto loss_of = [&](const Doubles& v) {
    double loss = 0;
    for (int64_t row = 0; row < rows; ++row) {
      if (targets[row] < 0) continue;
      double sum = 0;
      const auto capped = [&](int64_t i) { return cap * std::tanh(v[row * vocab + i] / cap); };
      for (int64_t i = 0; i < vocab; ++i) sum += std::exp(capped(i));
      loss += std::log(sum) - capped(targets[row]);
    }
    return loss;
  };
  double loss = 0;
  const Floats gradient = testing::RunWithThreads([&](const Context& c) {
    Floats dlogits = logits;
    loss = 0;
    testing::Workspace workspace(CrossEntropyWorkspaceBytes(rows));
    CrossEntropyForwardBackward(c, LossShape{rows, vocab, cap}, 1.0f, targets.data(),
                                dlogits.data(), &loss, workspace.get());
    return dlogits;
  });
  const Doubles x = testing::Widen(logits);
  EXPECT_NEAR(loss, loss_of(x), 1e-5);
  testing::ExpectClose(gradient, testing::FiniteDifferences(x, loss_of), 2e-6);
  Floats capped = logits;
  device::ThreadPool pool(1);
  Softcap({&pool}, rows * vocab, cap, capped.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(capped[i], cap * std::tanh(x[i] / cap), 1e-6);
}

// Kernels on 16 bits give what the same kernel gives on the widened numbers, rounded once.
template <typename T>
class NumbersOf16Bits : public ::testing::Test {
 protected:
  void ExpectRounded(const std::vector<T>& found, const Floats& exact) {
    ASSERT_EQ(found.size(), exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_EQ(found[i].bits, FromFloat<T>(exact[i]).bits) << i << " " << exact[i];
    }
  }
  device::ThreadPool pool_{2};
  const Context c_{&pool_};
};
using Types = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(NumbersOf16Bits, Types);

TYPED_TEST(NumbersOf16Bits, NormsActivationsAndEmbeddingsRoundOnce) {
  using T = TypeParam;
  const int64_t rows = 7, width = 29;
  const auto x = Narrow<T>(testing::Random(rows * width, 1)),
             w = Narrow<T>(testing::Random(width, 2)), b = Narrow<T>(testing::Random(width, 3));
  const Floats wide = Float(x), ww = Float(w), wb = Float(b);
  std::vector<T> y(x.size());
  Floats exact(x.size()), statistics(2 * rows), again(2 * rows);
  RmsNormForward(this->c_, RmsNormShape{rows, width, true}, kDenseEpsilon, x.data(), w.data(),
                 y.data(), statistics.data());
  RmsNormForward(this->c_, RmsNormShape{rows, width, true}, kDenseEpsilon, wide.data(), ww.data(),
                 exact.data(), again.data());
  this->ExpectRounded(y, exact);
  EXPECT_EQ(statistics, again);
  LayerNormForward(this->c_, {rows, width}, kDenseEpsilon, x.data(), w.data(), b.data(), y.data(),
                   statistics.data());
  LayerNormForward(this->c_, {rows, width}, kDenseEpsilon, wide.data(), ww.data(), wb.data(),
                   exact.data(), again.data());
  this->ExpectRounded(y, exact);
  ActivationForward(this->c_, rows * width, Function::kGelu, x.data(), y.data());
  ActivationForward(this->c_, rows * width, Function::kGelu, wide.data(), exact.data());
  this->ExpectRounded(y, exact);
  const std::vector<int32_t> tokens = {0, 6, 3, 3, 1, 2, 5};
  const EmbeddingShape embedding{rows, width, 0, rows, 5.5f};
  EmbeddingForward(this->c_, embedding, tokens.data(), x.data(), y.data());
  EmbeddingForward(this->c_, embedding, tokens.data(), wide.data(), exact.data());
  this->ExpectRounded(y, exact);
}

TYPED_TEST(NumbersOf16Bits, WeightGradientsAreSumsInFloat) {
  using T = TypeParam;
  const int64_t rows = 70, width = 21;
  const auto x = Narrow<T>(testing::Random(rows * width, 1)),
             dy = Narrow<T>(testing::Random(rows * width, 2)),
             w = Narrow<T>(testing::Random(width, 3));
  const Floats wx = Float(x), wdy = Float(dy), ww = Float(w);
  Floats rstd(rows, 0.5f), dw(width), exact_dw(width), db(width), exact_db(width),
      exact_dx(x.size());
  std::vector<T> dx(x.size());
  testing::Workspace workspace(RmsNormBackwardWorkspaceBytes(rows, width) +
                               BiasGradientWorkspaceBytes(rows, width));
  RmsNormBackward(this->c_, RmsNormShape{rows, width}, dy.data(), x.data(), w.data(), rstd.data(),
                  false, dx.data(), dw.data(), workspace.get());
  RmsNormBackward(this->c_, RmsNormShape{rows, width}, wdy.data(), wx.data(), ww.data(),
                  rstd.data(), false, exact_dx.data(), exact_dw.data(), workspace.get());
  this->ExpectRounded(dx, exact_dx);
  EXPECT_EQ(dw, exact_dw);
  BiasGradient(this->c_, rows, width, dy.data(), db.data(), workspace.get());
  BiasGradient(this->c_, rows, width, wdy.data(), exact_db.data(), workspace.get());
  EXPECT_EQ(db, exact_db);
}

TYPED_TEST(NumbersOf16Bits, TheLossIsThatOfTheWidenedLogits) {
  using T = TypeParam;
  const int64_t rows = 5, vocab = 259;
  const std::vector<int32_t> targets = {0, 258, -1, 17, 100};
  auto logits = Narrow<T>(testing::Random(rows * vocab, 1, 3));
  Floats wide = Float(logits);
  double loss = 0, exact = 0;
  testing::Workspace workspace(CrossEntropyWorkspaceBytes(rows));
  CrossEntropyForwardBackward(this->c_, LossShape{rows, vocab, 30}, 0.25f, targets.data(),
                              logits.data(), &loss, workspace.get());
  CrossEntropyForwardBackward(this->c_, LossShape{rows, vocab, 30}, 0.25f, targets.data(),
                              wide.data(), &exact, workspace.get());
  EXPECT_NEAR(loss, exact, 1e-5);
  const double step = std::is_same_v<T, BFloat16> ? 0x1p-8 : 0x1p-11;
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_NEAR(ToFloat(logits[i]), wide[i], step * std::abs(wide[i]) + 0x1p-24) << i;
  }
}

}  // namespace
}  // namespace strata::kernels
