#include "kernels/rope.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/rope.h"

namespace strata::kernels {
namespace {

using testing::Floats;

constexpr double kTheta = 10000;

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
    BuildRopeTable(0, s.start + s.sequence, s.head_size, kTheta, table.data());
    const Floats turned = testing::RunWithThreads([&](const Context& context) {
      Floats x = qkv;
      RopeApply(context, s, table.data(), nullptr, false, x.data());
      return x;
    });
    testing::ExpectClose(turned, reference::Rope(s, kTheta, false, testing::Widen(qkv)), 3e-7);
    const Floats back = testing::RunWithThreads([&](const Context& context) {
      Floats x = turned;
      RopeApply(context, s, table.data(), nullptr, true, x.data());
      return x;
    });
    testing::ExpectClose(back, reference::Rope(s, kTheta, true, testing::Widen(turned)), 3e-7);
    testing::ExpectClose(back, testing::Widen(qkv), 4e-7);
  }
}

TEST(Rope, RowsWithPositions_TurnByThemInsteadOfTheirPlace) {
  const RopeShape s = {.rows = 30, .sequence = 15, .heads = 3, .kv_heads = 1, .head_size = 10};
  const Floats qkv = testing::Random(s.rows * (s.heads + 2 * s.kv_heads) * s.head_size, 1);
  Floats table(s.sequence * s.head_size);
  BuildRopeTable(0, s.sequence, s.head_size, kTheta, table.data());
  std::vector<int32_t> positions(s.rows);
  for (size_t row = 0; row < positions.size(); ++row) {
    positions[row] = row < 15 ? static_cast<int32_t>(row) : static_cast<int32_t>(row % 4);
  }
  for (const bool inverse : {false, true}) {
    const Floats turned = testing::RunWithThreads([&](const Context& context) {
      Floats x = qkv;
      RopeApply(context, s, table.data(), positions.data(), inverse, x.data());
      return x;
    });
    testing::ExpectClose(turned,
                         reference::Rope(s, kTheta, inverse, testing::Widen(qkv), positions), 3e-7);
  }
}

template <typename T>
void ExpectTurned(const RopeShape& s) {
  const std::vector<T> qkv =
      testing::RandomOf<T>(s.rows * (s.heads + 2 * s.kv_heads) * s.head_size, 1);
  Floats table(s.sequence * s.width());
  BuildRopeTable(0, s.sequence, s.width(), kTheta, table.data());
  for (const bool inverse : {false, true}) {
    const Floats turned = testing::RunWithThreads([&](const Context& context) {
      std::vector<T> x = qkv;
      RopeApply(context, s, table.data(), nullptr, inverse, x.data());
      return testing::Back(x);
    });
    testing::ExpectRounded<T>(turned, reference::Rope(s, kTheta, inverse, testing::WidenOf(qkv)),
                              3e-7);
  }
}

TEST(Rope, OfEveryTypeAndOfPartsOfHeads_MatchesTheReference) {
  const RopeShape shapes[] = {
      {.rows = 14, .sequence = 7, .heads = 3, .kv_heads = 1, .head_size = 40, .rotary = 10},
      {.rows = 6, .sequence = 6, .heads = 3, .kv_heads = 3, .head_size = 80, .rotary = 32},
      {.rows = 9, .sequence = 9, .heads = 2, .kv_heads = 2, .head_size = 96},
      {.rows = 5, .sequence = 5, .heads = 1, .kv_heads = 1, .head_size = 256},
  };
  for (const RopeShape& shape : shapes) {
    ExpectTurned<float>(shape);
    ExpectTurned<BFloat16>(shape);
    ExpectTurned<Float16>(shape);
  }
}

}  // namespace
}  // namespace strata::kernels
