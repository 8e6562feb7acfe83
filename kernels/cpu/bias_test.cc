#include "kernels/bias.h"

#include "kernels/cpu/test_util.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

template <typename T>
void ExpectBias() {
  constexpr struct {
    int64_t rows, width;
  } kShapes[] = {{1, 1}, {5, 7}, {33, 40}, {100, 257}, {1, 5461}};
  for (const auto& shape : kShapes) {
    const auto [rows, width] = shape;
    const std::vector<T> y = testing::RandomOf<T>(rows * width, 1);
    const std::vector<T> b = testing::RandomOf<T>(width, 2);
    const Floats before = testing::Random(width, 3);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      std::vector<T> sum = y;
      AddBias(c, shape.rows, shape.width, b.data(), sum.data());
      return testing::Back(sum);
    });
    const Floats gradient = testing::RunWithThreads([&](const Context& c) {
      Floats db = before;
      testing::Workspace workspace(BiasGradientWorkspaceBytes(shape.rows, shape.width));
      BiasGradient(c, shape.rows, shape.width, y.data(), db.data(), workspace.get());
      return db;
    });
    Doubles sum, db = testing::Widen(before);
    for (int64_t i = 0; i < rows * width; ++i) {
      sum.push_back(static_cast<double>(ToFloat(y[i])) + ToFloat(b[i % width]));
      db[i % width] += ToFloat(y[i]);
    }
    testing::ExpectRounded<T>(result, sum, 1e-7);
    testing::ExpectClose(gradient, db, 1e-6);
  }
}

TEST(Bias, IsAddedToRowsAndItsGradientIsTheirSum) {
  ExpectBias<float>();
  ExpectBias<BFloat16>();
  ExpectBias<Float16>();
}

}  // namespace
}  // namespace strata::kernels
