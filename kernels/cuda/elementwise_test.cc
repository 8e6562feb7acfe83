#include "kernels/cuda/elementwise.h"

#include <cmath>

#include "kernels/cuda/testing.h"
#include "kernels/reference/elementwise.h"

namespace strata::kernels::cuda {
namespace {

// Within a packet, whole packets, more than a block, with elements left.
constexpr int64_t kCounts[] = {1, 7, 8, 2048, 2051, 5000};

template <typename T>
class ElementwiseTest : public TypedCudaTest<T> {
 protected:
  // `run` on random numbers gives what `expected` makes of each; elements before and after stay.
  template <typename Run, typename Expected>
  void ExpectMap(Run run, Expected expected) {
    for (const int64_t count : kCounts) {
      for (const int64_t first : {0, 1}) {  // aligned, and not
        const auto before = testing::RandomOf<T>(count + 2, 1, 3);
        Doubles values = testing::WidenOf(before);
        for (int64_t i = first; i < first + count; ++i) values[i] = expected(values[i]);
        this->InEachOrder([&] {
          DeviceArray<T> array(before, this->stream());
          STRATA_EXPECT_OK(run(this->stream(), count, array.data() + first));
          ExpectNumbers(array.ToHost(), values);
        });
      }
    }
  }
};
TYPED_TEST_SUITE(ElementwiseTest, NumberTypes);

TYPED_TEST(ElementwiseTest, AddAddsAlsoFromWhereNothingIsAligned) {
  using T = TypeParam;
  for (const int64_t count : kCounts) {
    for (const int64_t first : {0, 1}) {
      const auto src = testing::RandomOf<T>(count + first, 1), dst = testing::RandomOf<T>(count, 2);
      const Doubles all = testing::WidenOf(src), added(all.begin() + first, all.end());
      const Doubles expected = reference::Add(testing::WidenOf(dst), added);
      this->InEachOrder([&] {
        DeviceArray<T> from(src, this->stream()), to(dst, this->stream());
        STRATA_EXPECT_OK(Add(this->stream(), count, from.data() + first, to.data()));
        ExpectNumbers(to.ToHost(), expected);
      });
    }
  }
}

TYPED_TEST(ElementwiseTest, ScaleMultiplies) {
  using T = TypeParam;
  this->ExpectMap([](auto stream, int64_t count, T* x) { return Scale(stream, count, 0.3F, x); },
                  [](double x) { return x * 0.3F; });
}

TYPED_TEST(ElementwiseTest, SoftcapBounds) {
  using T = TypeParam;
  this->ExpectMap([](auto stream, int64_t count, T* x) { return Softcap(stream, count, 2.F, x); },
                  [](double x) { return 2 * std::tanh(x / 2); });
}

TYPED_TEST(ElementwiseTest, NothingIsNoWorkAndLessIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    T* none = nullptr;
    STRATA_EXPECT_OK(Add<T>(this->stream(), 0, none, none));
    STRATA_EXPECT_OK(Scale(this->stream(), 0, 2.F, none));
    STRATA_EXPECT_OK(Softcap(this->stream(), 0, 2.F, none));
    const auto refuses = [](const absl::Status& status) {
      return status.code() == absl::StatusCode::kInvalidArgument;
    };
    EXPECT_TRUE(refuses(Add<T>(this->stream(), -1, none, none)));
    EXPECT_TRUE(refuses(Softcap(this->stream(), 1, 0.F, none)));
    EXPECT_TRUE(refuses(Softcap(this->stream(), 1, NAN, none)));
  });
}

class BytesTest : public standin::CudaTest {};

TEST_F(BytesTest, CopyZeroAndFillLeaveTheRestAlone) {
  for (const int64_t count : {0, 1, 3, 4, 1027}) {
    const Floats from = testing::Random(count + 2, 1);
    Floats copied(from.size(), 7.F), filled = copied, zeroed = copied;
    for (int64_t i = 1; i <= count; ++i) {
      copied[i] = from[i];
      filled[i] = 0.5F;
      zeroed[i] = 0;
    }
    InEachOrder([&] {
      DeviceArray<float> source(from, stream()), a(Floats(from.size(), 7.F), stream()),
          b(Floats(from.size(), 7.F), stream()), c(Floats(from.size(), 7.F), stream());
      STRATA_EXPECT_OK(Copy(stream(), count * 4, source.data() + 1, a.data() + 1));
      STRATA_EXPECT_OK(Zero(stream(), count * 4, b.data() + 1));
      STRATA_EXPECT_OK(Fill(stream(), count, 0.5F, c.data() + 1));
      EXPECT_EQ(a.ToHost(), copied);
      EXPECT_EQ(b.ToHost(), zeroed);
      EXPECT_EQ(c.ToHost(), filled);
    });
  }
  InEachOrder([&] {
    EXPECT_FALSE(Copy(stream(), -1, nullptr, nullptr).ok());
    EXPECT_FALSE(Zero(stream(), -1, nullptr).ok());
  });
}

TEST_F(BytesTest, AddInOrderGivesTheSameBitsHoweverItIsCut) {
  const Floats random = testing::Random(700, 1);
  Floats losses = random;  // no addition of which rounds
  for (float& loss : losses) loss = std::nearbyint((11 + loss) * 0x1p20F) * 0x1p-20F;
  Floats large = losses, small = losses;
  large[650] = 0x1p60F;
  small[650] = 0x1p-60F;
  const Floats many(20000, 0.25F);
  for (const Floats& values : {random, losses, large, small, many}) {
    for (const double before : {0.1, 0.5, 0x1p40}) {
      const auto count = static_cast<int64_t>(values.size());
      double expected = before;
      for (const float value : values) expected += value;
      InEachOrder([&] {
        DeviceArray<float> from(values, stream());
        DeviceArray<double> whole(Doubles{before}, stream()), cut(Doubles{before}, stream());
        STRATA_EXPECT_OK(AddInOrder(stream(), count, from.data(), whole.data()));
        STRATA_EXPECT_OK(AddInOrder(stream(), 0, from.data(), cut.data()));
        STRATA_EXPECT_OK(AddInOrder(stream(), 13, from.data(), cut.data()));
        STRATA_EXPECT_OK(AddInOrder(stream(), count - 13, from.data() + 13, cut.data()));
        EXPECT_EQ(whole.ToHost()[0], expected);
        EXPECT_EQ(cut.ToHost()[0], expected);
      });
    }
  }
}

TEST_F(BytesTest, AddInOrderOfWhatIsNotANumberIsNotOne) {
  Floats values(300, 1.F);
  values[299] = NAN;
  InEachOrder([&] {
    DeviceArray<float> from(values, stream());
    DeviceArray<double> sum(Doubles{0}, stream());
    STRATA_EXPECT_OK(AddInOrder(stream(), 300, from.data(), sum.data()));
    EXPECT_TRUE(std::isnan(sum.ToHost()[0]));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
