#include "kernels/headnorm.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/headnorm.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kHeadEpsilon = 1e-6f;
constexpr HeadNormShape kHeadShapes[] = {
    {.rows = 1, .heads = 3, .kv_heads = 1, .head_size = 40},
    {.rows = 7, .heads = 3, .kv_heads = 3, .head_size = 80, .plus_one = true},
    {.rows = 37, .heads = 4, .kv_heads = 2, .head_size = 6},
    {.rows = 5, .heads = 2, .kv_heads = 1, .head_size = 256, .plus_one = true}};

template <typename T>
void ExpectHeadNorm(const HeadNormShape& s) {
  const int64_t elements = s.rows * s.width();
  const std::vector<T> qkv = testing::RandomOf<T>(elements, 1, 3);
  const std::vector<T> dout = testing::RandomOf<T>(elements, 2);
  const std::vector<T> wq = testing::RandomOf<T>(s.head_size, 3);
  const std::vector<T> wk = testing::RandomOf<T>(s.head_size, 4);
  const Floats before = testing::Random(s.head_size, 5);
  Floats rstd(s.rows * s.norms()), weights;
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    std::vector<T> out(elements), replayed = qkv, in_place = qkv, dqkv = dout, frozen(elements);
    HeadNormForward(c, s, kHeadEpsilon, qkv.data(), wq.data(), wk.data(), out.data(), rstd.data());
    HeadNormForward(c, s, kHeadEpsilon, in_place.data(), wq.data(), wk.data(), in_place.data(),
                    rstd.data());
    HeadNormReplay(c, s, replayed.data(), wq.data(), wk.data(), rstd.data(), replayed.data());
    EXPECT_TRUE(testing::SameBits(testing::Back(out), testing::Back(replayed)));
    EXPECT_TRUE(testing::SameBits(testing::Back(out), testing::Back(in_place)));
    testing::Workspace workspace(HeadNormBackwardWorkspaceBytes(s));
    Floats dwq = before, dwk = before;
    HeadNormBackward(c, s, dqkv.data(), qkv.data(), wq.data(), wk.data(), rstd.data(), dqkv.data(),
                     dwq.data(), dwk.data(), workspace.get());
    HeadNormBackward(c, s, dout.data(), qkv.data(), wq.data(), wk.data(), rstd.data(),
                     frozen.data(), nullptr, nullptr, nullptr);
    EXPECT_TRUE(testing::SameBits(testing::Back(dqkv), testing::Back(frozen)));
    weights = testing::Concat({dwq, dwk});
    return testing::Concat({testing::Back(out), testing::Back(dqkv), weights});
  });
  const Doubles wide_q = testing::WidenOf(wq), wide_k = testing::WidenOf(wk);
  const reference::HeadNorm expected =
      reference::HeadNormForward(s, kHeadEpsilon, testing::WidenOf(qkv), wide_q, wide_k);
  reference::HeadNormGradient gradient = reference::HeadNormBackward(
      s, testing::WidenOf(dout), testing::WidenOf(qkv), wide_q, wide_k, expected.rstd);
  for (int64_t i = 0; i < s.head_size; ++i) {
    gradient.dwq[i] += before[i];
    gradient.dwk[i] += before[i];
  }
  testing::ExpectClose(rstd, expected.rstd, 1e-6);
  testing::ExpectRounded<T>(Floats(result.begin(), result.begin() + 2 * elements),
                            testing::Concat({expected.out, gradient.dqkv}), 2e-6);
  testing::ExpectClose(weights, testing::Concat({gradient.dwq, gradient.dwk}), 3e-6);
}

TEST(HeadNorm, ForwardReplayAndBackward_MatchTheReferenceAlsoInPlace) {
  for (const HeadNormShape& shape : kHeadShapes) {
    ExpectHeadNorm<float>(shape);
    ExpectHeadNorm<BFloat16>(shape);
    ExpectHeadNorm<Float16>(shape);
  }
}

TEST(HeadNorm, ReferenceBackwardMatchesFiniteDifferences) {
  const HeadNormShape s = {.rows = 2, .heads = 3, .kv_heads = 1, .head_size = 4, .plus_one = true};
  const Doubles qkv = testing::Widen(testing::Random(s.rows * s.width(), 1));
  const Doubles dout = testing::Widen(testing::Random(s.rows * s.width(), 2));
  const Doubles wq = testing::Widen(testing::Random(s.head_size, 3));
  const Doubles wk = testing::Widen(testing::Random(s.head_size, 4));
  const auto value = [&](const Doubles& qkv, const Doubles& wq, const Doubles& wk) {
    return testing::Dot(dout, reference::HeadNormForward(s, kHeadEpsilon, qkv, wq, wk).out);
  };
  const reference::HeadNormGradient gradient = reference::HeadNormBackward(
      s, dout, qkv, wq, wk, reference::HeadNormForward(s, kHeadEpsilon, qkv, wq, wk).rstd);
  testing::ExpectClose(
      gradient.dqkv,
      testing::FiniteDifferences(qkv, [&](const Doubles& v) { return value(v, wq, wk); }), 1e-7);
  testing::ExpectClose(
      gradient.dwq,
      testing::FiniteDifferences(wq, [&](const Doubles& v) { return value(qkv, v, wk); }), 1e-7);
  testing::ExpectClose(
      gradient.dwk,
      testing::FiniteDifferences(wk, [&](const Doubles& v) { return value(qkv, wq, v); }), 1e-7);
}

}  // namespace
}  // namespace strata::kernels
