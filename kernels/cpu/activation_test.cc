#include "kernels/activation.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/activation.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr struct { int64_t rows, ffn; } kSwigluShapes[] = {{1, 1}, {3, 13}, {2, 16}, {40, 101}};

TEST(SwiGlu, ForwardMatchesTheReference) {
  for (const auto [rows, ffn] : kSwigluShapes) {
    const Floats gate_up = testing::Random(rows * 2 * ffn, 1, 4);
    const Floats result = testing::RunWithThreads([&, rows = rows, ffn = ffn](const Context& c) {
      Floats h(rows * ffn);
      GatedForward(c, rows, ffn, Function::kSilu, gate_up.data(), h.data());
      return h;
    });
    testing::ExpectClose(result, reference::SwiGluForward(rows, ffn, testing::Widen(gate_up)),
                         4e-7);
  }
}

TEST(SwiGlu, BackwardMatchesFiniteDifferencesAlsoInPlace) {
  for (const auto [rows, ffn] : kSwigluShapes) {
    if (rows * ffn > 1000) continue;
    const Floats gate_up = testing::Random(rows * 2 * ffn, 1, 2),
                 dh = testing::Random(rows * ffn, 2);
    const Floats result = testing::RunWithThreads([&, rows = rows, ffn = ffn](const Context& c) {
      Floats dgate_up(gate_up.size()), in_place = gate_up;
      GatedBackward(c, rows, ffn, Function::kSilu, dh.data(), gate_up.data(), dgate_up.data());
      GatedBackward(c, rows, ffn, Function::kSilu, dh.data(), in_place.data(), in_place.data());
      EXPECT_TRUE(testing::SameBits(dgate_up, in_place));
      return dgate_up;
    });
    const Doubles weights = testing::Widen(dh);
    const Doubles expected = testing::FiniteDifferences(
        testing::Widen(gate_up), [&, r = rows, f = ffn](const Doubles& x) {
          return testing::Dot(weights, reference::SwiGluForward(r, f, x));
        });
    testing::ExpectClose(result, expected, 1e-6);
    testing::ExpectClose(reference::SwiGluBackward(rows, ffn, weights, testing::Widen(gate_up)),
                         expected, 1e-7);
  }
}

TEST(SwiGlu, ExtremeGatesGiveTheirLimits) {
  const Floats gate_up = {200, -200, 90, -90, 1, 1, 1, 1};
  Floats h(4), dgate_up(8);
  device::ThreadPool pool(1);
  GatedForward({&pool}, 1, 4, Function::kSilu, gate_up.data(), h.data());
  EXPECT_EQ(h, (Floats{200, 0, 90, 0}));
  const Floats dh(4, 1.0f);
  GatedBackward({&pool}, 1, 4, Function::kSilu, dh.data(), gate_up.data(), dgate_up.data());
  EXPECT_EQ(dgate_up, (Floats{1, 0, 1, 0, 200, 0, 90, 0}));
}

}  // namespace
}  // namespace strata::kernels
