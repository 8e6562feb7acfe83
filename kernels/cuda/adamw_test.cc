#include "kernels/cuda/adamw.h"

#include <limits>
#include <type_traits>

#include "kernels/cuda/testing.h"
#include "kernels/reference/adamw.h"

namespace strata::kernels::cuda {
namespace {

// Less than a packet; packets with and without a rest; more than a block.
constexpr int64_t kCounts[] = {1, 7, 8, 2051, 4096};

template <typename W, typename G>
struct Types {
  using Weight = W;
  using Gradient = G;
};
using AllTypes = ::testing::Types<Types<float, float>, Types<float, BFloat16>,
                                  Types<BFloat16, float>, Types<BFloat16, BFloat16>>;

template <typename T>
class AdamWTest : public TypedCudaTest<T> {
 protected:
  using W = typename T::Weight;
  using G = typename T::Gradient;

  struct Outcome {
    Floats master, m, v;
    std::vector<W> weights;
  };

  struct Inputs {
    explicit Inputs(int64_t count)
        : gradient(testing::RandomOf<G>(count, 1)),
          master(testing::Random(count, 2)),
          m(testing::Random(count, 3, 0.1F)),
          v(testing::Random(count, 4)) {
      for (float& second : v) second = second * second;
    }
    std::vector<G> gradient;
    Floats master, m, v;
  };

  // In arrays that begin `skip` elements after an aligned address.
  Outcome Run(const Inputs& in, const AdamWParams& params, bool with_statistics, int64_t skip = 0) {
    cudaStream_t stream = this->stream();
    const int64_t count = static_cast<int64_t>(in.gradient.size()) - skip;
    DeviceArray<G> gradient(in.gradient, stream);
    DeviceArray<float> master(in.master, stream), m(in.m, stream), v(in.v, stream);
    DeviceArray<W> weights(testing::As<W>(in.master), stream);
    DeviceArray<GradientStatistics> statistics(1, stream);
    DeviceArray<GradientStatistics> workspace(
        GradientStatisticsWorkspaceBytes(count) / sizeof(GradientStatistics), stream);
    STRATA_EXPECT_OK(ReadGradientStatistics(stream, count, gradient.data() + skip, false,
                                            statistics.data(), workspace.data()));
    W* out = weights.data() + skip;
    if constexpr (std::is_same_v<W, float>) out = master.data() + skip;
    STRATA_EXPECT_OK(AdamW(stream, count, params, with_statistics ? statistics.data() : nullptr,
                           gradient.data() + skip, master.data() + skip, m.data() + skip,
                           v.data() + skip, out));
    Outcome outcome{master.ToHost(), m.ToHost(), v.ToHost(), weights.ToHost()};
    if constexpr (std::is_same_v<W, float>) outcome.weights = outcome.master;
    return outcome;
  }

  static reference::AdamWState Expected(const Inputs& in, const AdamWParams& params, double clip) {
    reference::AdamWState state{testing::Widen(in.master), testing::Widen(in.m),
                                testing::Widen(in.v)};
    kernels::AdamWParams same;
    same.learning_rate = params.learning_rate;
    same.beta1 = params.beta1;
    same.beta2 = params.beta2;
    same.epsilon = params.epsilon;
    same.weight_decay = params.weight_decay;
    same.step = params.step;
    same.grad_factor = params.grad_factor * clip;
    reference::AdamW(same, testing::WidenOf(in.gradient), &state);
    return state;
  }

  static void ExpectState(const Outcome& outcome, const reference::AdamWState& expected) {
    ExpectNumbers(outcome.master, expected.param);
    ExpectNumbers(outcome.m, expected.m);
    ExpectNumbers(outcome.v, expected.v);
    EXPECT_EQ(testing::Back(outcome.weights), testing::Back(testing::As<W>(outcome.master)));
  }
};
TYPED_TEST_SUITE(AdamWTest, AllTypes);

constexpr AdamWParams kParams{.learning_rate = 0.01, .weight_decay = 0.1, .step = 3};

TYPED_TEST(AdamWTest, UpdateEqualsTheReferenceForEveryCount) {
  for (const int64_t count : kCounts) {
    const typename TestFixture::Inputs inputs(count);
    const auto expected = this->Expected(inputs, kParams, 1);
    this->InEachOrder([&] { this->ExpectState(this->Run(inputs, kParams, false), expected); });
  }
}

TYPED_TEST(AdamWTest, UnalignedArraysAreUpdatedOneByOneAndTheRestIsKept) {
  const typename TestFixture::Inputs inputs(300);
  auto expected = this->Expected(inputs, kParams, 1);
  expected.param[0] = inputs.master[0];
  expected.m[0] = inputs.m[0];
  expected.v[0] = inputs.v[0];
  this->InEachOrder([&] { this->ExpectState(this->Run(inputs, kParams, false, 1), expected); });
}

TYPED_TEST(AdamWTest, AGradientThatIsTooLongIsClippedOnTheDevice) {
  AdamWParams params = kParams;
  params.grad_factor = 0.5;
  params.clip = 2;
  const typename TestFixture::Inputs inputs(2051);
  double squares = 0;
  for (const double g : testing::WidenOf(inputs.gradient)) squares += g * g;
  const double norm = std::sqrt(squares) * params.grad_factor;
  ASSERT_GT(norm, 4);
  const auto expected = this->Expected(inputs, params, params.clip / (norm + 1e-6));
  this->InEachOrder([&] { this->ExpectState(this->Run(inputs, params, true), expected); });
}

TYPED_TEST(AdamWTest, AGradientThatIsShortEnoughIsNotClipped) {
  AdamWParams params = kParams;
  params.clip = 1000;
  const typename TestFixture::Inputs inputs(300);
  const auto expected = this->Expected(inputs, params, 1);
  this->InEachOrder([&] { this->ExpectState(this->Run(inputs, params, true), expected); });
}

TYPED_TEST(AdamWTest, NothingChangesWhereAGradientIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const int64_t at : {int64_t{0}, int64_t{1234}, int64_t{2050}}) {
      typename TestFixture::Inputs inputs(2051);
      inputs.gradient[at] = FromFloat<typename TypeParam::Gradient>(bad);
      this->InEachOrder([&] {
        const auto outcome = this->Run(inputs, kParams, true);
        EXPECT_EQ(outcome.master, inputs.master);
        EXPECT_EQ(outcome.m, inputs.m);
        EXPECT_EQ(outcome.v, inputs.v);
      });
    }
  }
}

template <typename T>
class GradientStatisticsTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(GradientStatisticsTest, NumberTypes);

TYPED_TEST(GradientStatisticsTest, SquaresOfTwoArraysAreAddedUp) {
  for (const int64_t count : {1, 9, 30'011}) {
    const auto a = testing::RandomOf<TypeParam>(count, 1), b = testing::RandomOf<TypeParam>(7, 2);
    double squares = 0;
    for (const double g : testing::WidenOf(a)) squares += g * g;
    for (const double g : testing::WidenOf(b)) squares += g * g;
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<TypeParam> first(a, stream), second(b, stream);
      DeviceArray<GradientStatistics> statistics(1, stream),
          workspace(GradientStatisticsWorkspaceBytes(count) / sizeof(GradientStatistics), stream);
      STRATA_EXPECT_OK(ReadGradientStatistics(stream, count, first.data(), false, statistics.data(),
                                              workspace.data()));
      STRATA_EXPECT_OK(ReadGradientStatistics(stream, 7, second.data(), true, statistics.data(),
                                              workspace.data()));
      const auto result = statistics.ToHost();
      EXPECT_NEAR(result[0].squares, squares, 1e-6 * squares);
      EXPECT_EQ(result[0].not_finite, 0u);
    });
  }
}

}  // namespace
}  // namespace strata::kernels::cuda
