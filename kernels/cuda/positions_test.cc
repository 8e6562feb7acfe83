#include "kernels/cuda/positions.h"

#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

// By packets and by elements; rows of several sequences from the middle of one on, fewer rows than
// a sequence has, a start, positions beyond the table.
constexpr PositionsShape kShapes[] = {
    {.rows = 1, .sequence = 1, .channels = 1, .context = 1},
    {.rows = 12, .sequence = 5, .channels = 7, .context = 5, .first = 3},
    {.rows = 3, .sequence = 8, .channels = 24, .context = 9, .first = 13},
    {.rows = 6, .sequence = 6, .channels = 8, .context = 9, .start = 5},
    {.rows = 300, .sequence = 100, .channels = 33, .context = 100},
    {.rows = 2, .sequence = 2, .channels = 2056, .context = 2}};

// Where rows stand; with `given` at positions that have nothing to do with the shape.
std::vector<int32_t> Positions(const PositionsShape& s, bool given) {
  std::vector<int32_t> positions;
  for (int64_t n = 0; n < s.rows; ++n) {
    positions.push_back(static_cast<int32_t>(given ? n * n % (s.context + 2) - 1
                                                   : s.start + (s.first + n) % s.sequence));
  }
  return positions;
}

template <typename T>
class PositionsTest : public TypedCudaTest<T> {
 protected:
  // body(shape, whether positions are given, where rows stand).
  template <typename Body>
  void ForShapes(Body body) {
    for (const PositionsShape& shape : kShapes) {
      for (const bool given : {false, true}) body(shape, given, Positions(shape, given));
    }
  }
};
TYPED_TEST_SUITE(PositionsTest, NumberTypes);

TYPED_TEST(PositionsTest, TheTablesRowsAreAdded) {
  using T = TypeParam;
  this->ForShapes([&](const PositionsShape& s, bool given, const std::vector<int32_t>& at) {
    const auto table = testing::RandomOf<T>(s.context * s.channels, 1),
               y = testing::RandomOf<T>(s.rows * s.channels, 2);
    Doubles expected = testing::WidenOf(y);
    for (int64_t i = 0; i < s.rows * s.channels; ++i) {
      const int64_t position = at[i / s.channels];
      if (position < 0 || position >= s.context) continue;
      expected[i] += ToFloat(table[position * s.channels + i % s.channels]);
    }
    this->InEachOrder([&] {
      DeviceArray<T> entries(table, this->stream()), values(y, this->stream());
      DeviceArray<int32_t> positions(at, this->stream());
      STRATA_EXPECT_OK(AddPositions<T>(this->stream(), s, entries.data(),
                                       given ? positions.data() : nullptr, values.data()));
      ExpectNumbers(values.ToHost(), expected);
    });
  });
}

TYPED_TEST(PositionsTest, RowsStandFromWhereTheDeviceFinds) {
  using T = TypeParam;
  const PositionsShape shape{.rows = 4, .sequence = 4, .channels = 24, .context = 9, .start = 7};
  const auto table = testing::RandomOf<T>(shape.context * shape.channels, 1),
             y = testing::RandomOf<T>(shape.rows * shape.channels, 2);
  this->InEachOrder([&] {
    DeviceArray<T> entries(table, this->stream()), said(y, this->stream()), read(y, this->stream());
    DeviceArray<double> start(Doubles{7}, this->stream());
    PositionsShape placed = shape;
    placed.start = 0;
    placed.start_at = start.data();
    STRATA_EXPECT_OK(AddPositions<T>(this->stream(), shape, entries.data(), nullptr, said.data()));
    STRATA_EXPECT_OK(AddPositions<T>(this->stream(), placed, entries.data(), nullptr, read.data()));
    EXPECT_EQ(testing::Back(read.ToHost()), testing::Back(said.ToHost()));
  });
}

TYPED_TEST(PositionsTest, GradientsOfAPositionsRowsAreAdded) {
  using T = TypeParam;
  this->ForShapes([&](const PositionsShape& s, bool given, const std::vector<int32_t>& at) {
    const auto dy = testing::RandomOf<T>(s.rows * s.channels, 1);
    const Floats before = testing::Random(s.context * s.channels, 2);
    Doubles expected = testing::Widen(before);
    for (int64_t i = 0; i < s.rows * s.channels; ++i) {
      const int64_t position = at[i / s.channels];
      if (position < 0 || position >= s.context) continue;
      expected[position * s.channels + i % s.channels] += ToFloat(dy[i]);
    }
    this->InEachOrder([&] {
      DeviceArray<T> gradient(dy, this->stream());
      DeviceArray<float> dtable(before, this->stream());
      DeviceArray<int32_t> positions(at, this->stream());
      STRATA_EXPECT_OK(PositionsGradient<T>(this->stream(), s, gradient.data(),
                                            given ? positions.data() : nullptr, dtable.data()));
      ExpectNumbers(dtable.ToHost(), expected);
    });
  });
}

TYPED_TEST(PositionsTest, NoRowsAreNoWorkAndNoSequenceIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    STRATA_EXPECT_OK(AddPositions<T>(this->stream(), {0, 4, 8, 4}, nullptr, nullptr, nullptr));
    STRATA_EXPECT_OK(PositionsGradient<T>(
        this->stream(), {.rows = 2, .sequence = 2, .channels = 8, .context = 4, .start = 4},
        nullptr, nullptr, nullptr));
    EXPECT_EQ(AddPositions<T>(this->stream(), {2, 0, 8, 4}, nullptr, nullptr, nullptr).message(),
              "positions of 2 rows of 8 channels from 0 on, in sequences of 0 from 0 on, of 4");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
