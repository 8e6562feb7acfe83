#include "kernels/cuda/step.h"

#include <algorithm>
#include <limits>

#include "gmock/gmock.h"
#include "kernels/cuda/testing.h"
#include "kernels/reference/elementwise.h"

namespace strata::kernels::cuda {
namespace {

using ::testing::ElementsAreArray;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
class SumSquaresTest : public TypedCudaTest<T> {
 protected:
  // Of what begins `skip` elements after an aligned address.
  double Run(const std::vector<T>& values, int64_t skip = 0) {
    DeviceArray<T> x(values, this->stream());
    DeviceArray<double> out(1, this->stream()),
        workspace(kSumSquaresWorkspaceBytes / 8, this->stream());
    STRATA_EXPECT_OK(SumSquares(this->stream(), static_cast<int64_t>(values.size()) - skip,
                                x.data() + skip, out.data(), workspace.data()));
    return out.ToHost()[0];
  }
};
using AllNumberTypes = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(SumSquaresTest, AllNumberTypes);

TYPED_TEST(SumSquaresTest, EqualsTheReference) {
  // Less than a packet; packets with and without a rest; several blocks.
  for (const int64_t count : {1, 8, 2051, 30'011}) {
    const auto values = testing::RandomOf<TypeParam>(count, 1);
    const double expected = reference::SumSquares(testing::WidenOf(values));
    this->InEachOrder([&] { EXPECT_NEAR(this->Run(values), expected, 1e-13 * expected); });
  }
}

TYPED_TEST(SumSquaresTest, UnalignedArraysAreReadOneByOne) {
  auto values = testing::RandomOf<TypeParam>(3000, 1);
  values[0] = FromFloat<TypeParam>(kNan);
  auto rest = testing::WidenOf(values);
  rest.erase(rest.begin());
  const double expected = reference::SumSquares(rest);
  this->InEachOrder([&] { EXPECT_NEAR(this->Run(values, 1), expected, 1e-13 * expected); });
}

TYPED_TEST(SumSquaresTest, IsNotFiniteExactlyWhereANumberIsNot) {
  auto values = testing::RandomOf<TypeParam>(2051, 1);
  values[77] = FromFloat<TypeParam>(std::is_same_v<TypeParam, Float16> ? 65504 : 3e38F);
  this->InEachOrder([&] { EXPECT_TRUE(std::isfinite(this->Run(values))); });
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (const int64_t at : {0, 1234, 2050}) {
      auto with = values;
      with[at] = FromFloat<TypeParam>(bad);
      this->InEachOrder([&] { EXPECT_FALSE(std::isfinite(this->Run(with))); });
    }
  }
}

TYPED_TEST(SumSquaresTest, OfNothingIsZero) {
  this->InEachOrder([&] { EXPECT_EQ(this->Run(testing::RandomOf<TypeParam>(1, 1), 1), 0); });
}

// The fixed tree, level by level.
double TreeSum(Doubles leaves) {
  while (leaves.size() > 1) {
    Doubles above;
    for (size_t i = 0; i < leaves.size(); i += 2) {
      above.push_back(i + 1 < leaves.size() ? leaves[i] + leaves[i + 1] : leaves[i]);
    }
    leaves = above;
  }
  return leaves[0];
}

class FinishStepTest : public standin::CudaTest {
 protected:
  struct Inputs {
    Doubles losses, norms;
    double inverse_tokens = 1.0 / 37;
    double loss_scale = 0;  // 0: not scaled
  };
  static Inputs InputsOf(const FinishStepShape& shape) {
    Inputs in{testing::Widen(testing::Random(shape.rows, 1)),
              testing::Widen(testing::Random(shape.rows * std::max<int64_t>(shape.sets, 1), 2))};
    for (double& square : in.norms) square *= square;
    return in;
  }

  // Loss, norm, factor, clipped, apply; the scalars are in the host's memory, as the engine's are.
  Doubles Run(const FinishStepShape& shape, const Inputs& in) {
    DeviceArray<double> losses(in.losses, stream()), norms(in.norms, stream());
    double* at = nullptr;
    STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&at), 7 * sizeof(double)));
    const double before[] = {in.inverse_tokens, in.loss_scale, -1, -1, -1, -1, -1};
    std::copy(std::begin(before), std::end(before), at);
    STRATA_EXPECT_OK(FinishStep(stream(), shape, losses.data(), norms.data(),
                                {.inverse_tokens = at,
                                 .loss_scale = in.loss_scale == 0 ? nullptr : at + 1,
                                 .loss = at + 2,
                                 .gradient_norm = at + 3,
                                 .clip_factor = at + 4,
                                 .apply = at + 6,
                                 .clipped = at + 5}));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream()));
    Doubles after(at + 2, at + 7);
    STRATA_EXPECT_CUDA(cudaFreeHost(at));
    return after;
  }

  // ops::FinishStep's own words.
  static Doubles Expected(const FinishStepShape& shape, const Inputs& in) {
    const int64_t per_rank = shape.rows / shape.data, ranges = shape.rows / shape.norm_ranks;
    Doubles leaves(shape.rows);
    for (int64_t rank = 0; rank < shape.data; ++rank) {
      const int64_t replica = rank / shape.together, member = rank % shape.together;
      for (int64_t row = 0; row < per_rank; ++row) {
        leaves[replica * per_rank * shape.together + row * shape.together + member] =
            in.losses[rank * per_rank + row];
      }
    }
    const double scale = in.loss_scale == 0 ? 1 : in.loss_scale;
    const double loss = TreeSum(leaves) * in.inverse_tokens / scale;
    if (shape.sets == 0) return {loss, -1, -1, -1, -1};
    double squares = 0;
    for (int64_t set = 0; set < shape.sets; ++set) {
      Doubles of_set;
      for (int64_t rank = 0; rank < shape.norm_ranks; ++rank) {
        const auto from = in.norms.begin() + (rank * shape.sets + set) * ranges;
        of_set.insert(of_set.end(), from, from + ranges);
      }
      squares += TreeSum(of_set);
    }
    const double norm = std::sqrt(squares) / scale;
    const double clip = shape.clip > 0 ? std::min(1.0, shape.clip / (norm + 1e-6)) : 1;
    return {loss, norm, clip / scale, clip < 1 ? 1.0 : 0.0,
            std::isfinite(loss) && std::isfinite(norm) ? 1.0 : 0.0};
  }
};

TEST_F(FinishStepTest, EqualsTheTreesBitByBit) {
  const FinishStepShape shapes[] = {
      {.rows = 1, .sets = 1},
      {.rows = 6, .sets = 0, .data = 3, .together = 3},
      {.rows = 24, .sets = 2, .data = 12, .together = 3, .norm_ranks = 4, .clip = 1},
      {.rows = 33, .sets = 31, .data = 3, .norm_ranks = 3, .clip = 1e6},
      {.rows = 280, .sets = 70, .data = 4, .together = 2, .norm_ranks = 8, .clip = 0.5}};
  for (const FinishStepShape& shape : shapes) {
    SCOPED_TRACE(shape.rows);
    const Inputs in = InputsOf(shape);
    const Doubles expected = Expected(shape, in);
    InEachOrder([&] { EXPECT_THAT(Run(shape, in), ElementsAreArray(expected)); });
  }
}

TEST_F(FinishStepTest, ALossesScaleIsDividedOut) {
  const FinishStepShape shape{.rows = 40, .sets = 2, .clip = 1e-3};
  Inputs in = InputsOf(shape);
  in.loss_scale = 1024;
  const Doubles expected = Expected(shape, in);
  ASSERT_EQ(expected[3], 1);
  InEachOrder([&] { EXPECT_THAT(Run(shape, in), ElementsAreArray(expected)); });
}

TEST_F(FinishStepTest, IsNotAppliedWhereLossOrNormIsNotFinite) {
  const FinishStepShape shape{.rows = 3, .sets = 2, .clip = 1};
  for (const double bad : {double{kInfinity}, double{kNan}}) {
    Inputs loss = InputsOf(shape), norm = InputsOf(shape);
    loss.losses[1] = bad;
    norm.norms[4] = bad;
    InEachOrder([&] {
      EXPECT_EQ(Run(shape, loss)[4], 0);
      EXPECT_EQ(Run(shape, norm)[4], 0);
      EXPECT_EQ(Run(shape, InputsOf(shape))[4], 1);
    });
  }
}

TEST_F(FinishStepTest, RefusesRanksThatDoNotDivideRows) {
  EXPECT_FALSE(FinishStep(nullptr, {.rows = 4, .data = 3}, nullptr, nullptr, {}).ok());
  EXPECT_FALSE(FinishStep(nullptr, {.rows = 4, .norm_ranks = 3}, nullptr, nullptr, {}).ok());
  EXPECT_FALSE(FinishStep(nullptr, {.rows = 0}, nullptr, nullptr, {}).ok());
}

}  // namespace
}  // namespace strata::kernels::cuda
