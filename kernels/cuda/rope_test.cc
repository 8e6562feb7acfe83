#include "kernels/cuda/rope.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/rope.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kTheta = 10000;
constexpr int64_t kPositions = 40;

// By packets and by elements, parts of heads that turn, more than a block, with and without keys.
constexpr RopeShape kShapes[] = {
    {1, 1, 1, 1, 2},        {5, 3, 3, 1, 6, 7}, {6, 4, 4, 2, 32, 3},     {4, 4, 2, 1, 48, 0, 16},
    {3, 2, 5, 5, 10, 1, 4}, {2, 2, 40, 8, 128}, {4, 2, 2, 0, 20, 0, 16},
};

kernels::RopeShape OnTheHost(const RopeShape& s) {
  return {s.rows, s.sequence, s.heads, s.kv_heads, s.head_size, s.start, s.rotary};
}

Floats Table(const RopeShape& shape) {
  Floats table(kPositions * shape.width());
  BuildRopeTable(0, kPositions, shape.width(), kTheta, table.data());
  return table;
}

int64_t Elements(const RopeShape& s) { return s.rows * (s.heads + 2 * s.kv_heads) * s.head_size; }

template <typename T>
class RopeTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(RopeTest, NumberTypes);

TYPED_TEST(RopeTest, ForwardAndGradientInPlaceEqualTheReference) {
  using T = TypeParam;
  for (const RopeShape& shape : kShapes) {
    const auto qkv = testing::RandomOf<T>(Elements(shape), 1);
    const Floats table = Table(shape);
    for (const bool inverse : {false, true}) {
      const auto expected =
          reference::Rope(OnTheHost(shape), kTheta, inverse, testing::WidenOf(qkv));
      this->InEachOrder([&] {
        DeviceArray<T> values(qkv, this->stream());
        DeviceArray<float> angles(table, this->stream());
        STRATA_EXPECT_OK(
            RopeApply(this->stream(), shape, angles.data(), nullptr, inverse, values.data()));
        ExpectNumbers(values.ToHost(), expected);
      });
    }
  }
}

TYPED_TEST(RopeTest, RowsStandWherePositionsSay) {
  using T = TypeParam;
  const RopeShape shape{4, 4, 2, 1, 16};
  const std::vector<int32_t> positions{39, 0, 7, 7};
  const auto qkv = testing::RandomOf<T>(Elements(shape), 1);
  const auto expected =
      reference::Rope(OnTheHost(shape), kTheta, false, testing::WidenOf(qkv), positions);
  this->InEachOrder([&] {
    DeviceArray<T> values(qkv, this->stream());
    DeviceArray<float> angles(Table(shape), this->stream());
    DeviceArray<int32_t> where(positions, this->stream());
    STRATA_EXPECT_OK(
        RopeApply(this->stream(), shape, angles.data(), where.data(), false, values.data()));
    ExpectNumbers(values.ToHost(), expected);
  });
}

// A chunk of a text in decoding, at whose end the table ends.
TYPED_TEST(RopeTest, RowsStandFromWhereTheDeviceFinds) {
  using T = TypeParam;
  RopeShape shape{6, 6, 2, 1, 16};
  shape.table_rows = kPositions;
  constexpr int64_t kStart = kPositions - 4;
  const auto qkv = testing::RandomOf<T>(Elements(shape), 1);
  kernels::RopeShape turned = OnTheHost(shape);
  turned.start = kStart;
  turned.rows = 4;
  const int64_t end = Elements({4, 6, 2, 1, 16});
  const Doubles given = testing::WidenOf(qkv);
  Doubles expected = reference::Rope(turned, kTheta, false, {given.begin(), given.begin() + end});
  expected.insert(expected.end(), given.begin() + end, given.end());
  this->InEachOrder([&] {
    DeviceArray<T> values(qkv, this->stream());
    DeviceArray<float> angles(Table(shape), this->stream());
    DeviceArray<double> start(Doubles{kStart}, this->stream());
    RopeShape placed = shape;
    placed.start_at = start.data();
    STRATA_EXPECT_OK(
        RopeApply(this->stream(), placed, angles.data(), nullptr, false, values.data()));
    ExpectNumbers(values.ToHost(), expected);
  });
}

TYPED_TEST(RopeTest, AnOddWidthIsRefused) {
  this->InEachOrder([&] {
    TypeParam* none = nullptr;
    EXPECT_EQ(RopeApply(this->stream(), {1, 1, 1, 1, 7}, nullptr, nullptr, false, none).code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TYPED_TEST(RopeTest, NoRowsAreNoWorkAndAnOddWidthIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    const auto apply = [&](const RopeShape& shape) {
      return RopeApply<T>(this->stream(), shape, nullptr, nullptr, false, nullptr);
    };
    STRATA_EXPECT_OK(apply({0, 4, 2, 1, 16}));
    EXPECT_EQ(apply({3, 4, 2, 1, 15}).message(),
              "rope of 3 rows of 2 + 2 * 1 heads of 15, of which 15 turn, in sequences of 4");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
