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
              "sums of 0 columns over 1 rows");
  });
}

class PartialSumsTest : public standin::CudaTest {};

TEST_F(PartialSumsTest, AreOfBothHalvesOfEachRow) {
  constexpr int64_t kRows = 150, kColumns = 40;  // more rows than are on their way at once
  const Floats partial = testing::Random(kRows * 2 * kColumns, 1),
               before = testing::Random(2 * kColumns, 2);
  const Doubles expected = Sums(2 * kColumns, testing::Widen(partial), testing::Widen(before));
  InEachOrder([&] {
    const auto middle = before.begin() + kColumns;
    DeviceArray<float> from(partial, stream()), sums(Floats(before.begin(), middle), stream()),
        more(Floats(middle, before.end()), stream());
    STRATA_EXPECT_OK(
        AddPartialSums(stream(), kRows, kColumns, from.data(), sums.data(), more.data()));
    ExpectNumbers(sums.ToHost(), Doubles(expected.begin(), expected.begin() + kColumns));
    ExpectNumbers(more.ToHost(), Doubles(expected.begin() + kColumns, expected.end()));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
