#include "kernels/rope.h"

#include "kernels/cpu/test_util.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr double kTheta = 10000;

// x as a complex number per pair, turned by its angle.
Doubles Reference(const RopeShape& s, const Floats& qkv) {
  Doubles result = testing::Widen(qkv);
  const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_size, half = s.head_size / 2;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t head = 0; head < s.heads + s.kv_heads; ++head) {
      double* x = &result[row * stride + head * s.head_size];
      for (int64_t i = 0; i < half; ++i) {
        const double angle = (s.start + row % s.sequence) / std::pow(kTheta, 2.0 * i / s.head_size);
        const double low = x[i], high = x[i + half];
        x[i] = low * std::cos(angle) - high * std::sin(angle);
        x[i + half] = high * std::cos(angle) + low * std::sin(angle);
      }
    }
  }
  return result;
}

TEST(Rope, TurnsQueriesAndKeysAndTurnsBack) {
  const RopeShape shapes[] = {
      {.rows = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 2, .start = 0},
      {.rows = 14, .sequence = 7, .heads = 3, .kv_heads = 1, .head_size = 10, .start = 0},
      {.rows = 9, .sequence = 9, .heads = 2, .kv_heads = 2, .head_size = 64, .start = 100},
      {.rows = 200, .sequence = 100, .heads = 4, .kv_heads = 2, .head_size = 36, .start = 0},
  };
  for (const RopeShape& s : shapes) {
    const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_size;
    const Floats qkv = testing::Random(s.rows * stride, 1);
    Floats table((s.start + s.sequence) * s.head_size);
    BuildRopeTable(s.start + s.sequence, s.head_size, kTheta, table.data());
    const Floats turned = testing::RunWithThreads([&](const Context& context) {
      Floats x = qkv;
      RopeApply(context, s, table.data(), false, x.data());
      return x;
    });
    testing::ExpectClose(turned, Reference(s, qkv), 3e-7);
    const Floats back = testing::RunWithThreads([&](const Context& context) {
      Floats x = turned;
      RopeApply(context, s, table.data(), true, x.data());
      return x;
    });
    testing::ExpectClose(back, testing::Widen(qkv), 4e-7);
  }
}

}  // namespace
}  // namespace strata::kernels
