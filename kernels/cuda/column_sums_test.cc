#include "kernels/cuda/column_sums.h"

#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

Doubles Sums(int64_t columns, const Doubles& values, const Doubles& before) {
  Doubles sums = before;
  for (size_t i = 0; i < values.size(); ++i) sums[i % columns] += values[i];
  return sums;
}

template <typename T>
class ColumnSumsTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(ColumnSumsTest, NumberTypes);

// By packets and by elements; one row, more rows than a part has, more parts than there can be,
// more columns than a block has.
TYPED_TEST(ColumnSumsTest, AreAddedOverRows) {
  using T = TypeParam;
  constexpr struct {
    int64_t rows, columns;
  } kShapes[] = {{1, 1}, {3, 7}, {33, 24}, {70, 33}, {9, 264}, {4200, 8}};
  for (const auto [rows, columns] : kShapes) {
    const auto values = testing::RandomOf<T>(rows * columns, 1);
    const Floats before = testing::Random(columns, 2);
    const Doubles expected = Sums(columns, testing::WidenOf(values), testing::Widen(before));
    this->InEachOrder([&, rows = rows, columns = columns] {
      DeviceArray<T> from(values, this->stream());
      DeviceArray<float> sums(before, this->stream()),
          workspace(ColumnSumsWorkspaceBytes(rows, columns) / sizeof(float), this->stream());
      STRATA_EXPECT_OK(AddColumnSums<T>(this->stream(), rows, columns, from.data(), sums.data(),
                                        workspace.data()));
      ExpectNumbers(sums.ToHost(), expected);
    });
  }
}

TYPED_TEST(ColumnSumsTest, OfNoRowsAreNothing) {
  using T = TypeParam;
  this->InEachOrder([&] {
    DeviceArray<float> sums(Floats{1, 2}, this->stream());
    STRATA_EXPECT_OK(AddColumnSums<T>(this->stream(), 0, 2, nullptr, sums.data(), nullptr));
    EXPECT_EQ(sums.ToHost(), (Floats{1, 2}));
    EXPECT_EQ(AddColumnSums<T>(this->stream(), 1, 0, nullptr, nullptr, nullptr).message(),
              "sums of 0 columns over 1 rows of 0");
  });
}

class PartialSumsTest : public standin::CudaTest {};

TEST_F(PartialSumsTest, AreOfTheFirstColumnsOfEachRow) {
  const Floats partial = testing::Random(11 * 90, 1), before = testing::Random(40, 2);
  Doubles expected = testing::Widen(before);
  for (int64_t row = 0; row < 11; ++row) {
    for (int64_t c = 0; c < 40; ++c) expected[c] += partial[row * 90 + 50 + c];
  }
  InEachOrder([&] {
    DeviceArray<float> from(partial, stream()), sums(before, stream());
    STRATA_EXPECT_OK(AddPartialSums(stream(), 11, 40, 90, from.data() + 50, sums.data()));
    ExpectNumbers(sums.ToHost(), expected);
    EXPECT_FALSE(AddPartialSums(stream(), 11, 40, 39, from.data(), sums.data()).ok());
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
