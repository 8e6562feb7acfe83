// The end of a step as an engine queues it: squares, last word, update, and no wait of the host
// between them. The scalar block is the host's pinned memory.
#include <limits>

#include "kernels/cuda/adamw.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/update_testing.h"
#include "kernels/reference/adamw.h"

namespace strata::kernels::cuda {
namespace {

constexpr int64_t kCount = 1000;
constexpr AdamWRates kRates{.epsilon = 1e-6, .weight_decay = 0.1};
constexpr double kLearningRate = 0.01, kClip = 0.5, kApplied = 3;

class StepEndTest : public standin::CudaTest {
 protected:
  enum Place {
    kAppliedAt,
    kRate,
    kInverseTokens,
    kLoss,
    kNorm,
    kFactor,
    kApply,
    kClipped,
    kPlaces
  };

  struct Outcome {
    reference::AdamWState state;
    Doubles scalars;
  };

  // With `speculates`, the update is made before the norm is known, and then corrected.
  Outcome Run(UpdateBytes& numbers, bool speculates) {
    double* scalars = nullptr;
    STRATA_EXPECT_CUDA(
        cudaMallocHost(reinterpret_cast<void**>(&scalars), kPlaces * sizeof(double)));
    std::fill_n(scalars, kPlaces, -1);
    scalars[kAppliedAt] = kApplied;
    scalars[kRate] = kLearningRate;
    scalars[kInverseTokens] = 1;
    scalars[kFactor] = 1;
    const UpdateScalars always{scalars + kAppliedAt, scalars + kRate, scalars + kFactor, {}};
    const std::vector<UpdateSegment> segments = {{0, kCount, true}};

    DeviceArray<double> losses(Doubles{2.5}, stream()), norms(1, stream()),
        workspace(kSumSquaresWorkspaceBytes / sizeof(double), stream());
    const auto after = numbers.OnTheDevice(stream(), false, [&](const NumbersOfUpdate& of) {
      if (speculates) STRATA_EXPECT_OK(AdamW(stream(), kRates, always, segments, of));
      STRATA_EXPECT_OK(SumSquares(stream(), kCount, reinterpret_cast<const float*>(of.gradient),
                                  norms.data(), workspace.data()));
      STRATA_EXPECT_OK(FinishStep(stream(), {.rows = 1, .sets = 1, .clip = kClip}, losses.data(),
                                  norms.data(),
                                  {.inverse_tokens = scalars + kInverseTokens,
                                   .loss = scalars + kLoss,
                                   .gradient_norm = scalars + kNorm,
                                   .clip_factor = scalars + kFactor,
                                   .apply = scalars + kApply,
                                   .clipped = scalars + kClipped}));
      UpdateScalars where = always;
      where.predicate.scalar = scalars + (speculates ? kClipped : kApply);
      if (!speculates) {
        STRATA_EXPECT_OK(AdamW(stream(), kRates, where, segments, of));
        return;
      }
      NumbersOfUpdate correction = of;
      correction.gradient = of.next_moments[0].data;
      STRATA_EXPECT_OK(AdamWFixUp(stream(), kRates, where, segments, correction));
    });
    const std::vector<Floats> values = numbers.Values(after);
    Outcome outcome{
        {testing::Widen(values[0]), testing::Widen(values[2]), testing::Widen(values[3])},
        Doubles(scalars, scalars + kPlaces)};
    STRATA_EXPECT_CUDA(cudaFreeHost(scalars));
    return outcome;
  }

  static UpdateBytes Numbers(float gradient_scale) {
    UpdateBytes numbers({.moments = {MomentFormat::kF32, MomentFormat::kF32}}, kCount);
    const Floats gradient = testing::Random(kCount, 1, gradient_scale);
    std::memcpy(numbers.arrays[0].data(), gradient.data(), kCount * sizeof(float));
    return numbers;
  }
};

TEST_F(StepEndTest, GradientsAreClippedByTheNormThatTheDeviceFound) {
  for (const float scale : {1e-3F, 1.F}) {  // shorter and longer than they may be
    UpdateBytes numbers = Numbers(scale);
    const Doubles gradient = testing::Widen(numbers.Gradient());
    const double norm = std::sqrt(testing::Dot(gradient, gradient));
    const double factor = std::min(1.0, kClip / (norm + 1e-6));
    const std::vector<Floats> before = numbers.Before();
    reference::AdamWState expected{testing::Widen(before[0]), testing::Widen(before[2]),
                                   testing::Widen(before[3])};
    reference::AdamW({.learning_rate = kLearningRate,
                      .beta1 = kRates.beta1,
                      .beta2 = kRates.beta2,
                      .epsilon = kRates.epsilon,
                      .weight_decay = kRates.weight_decay,
                      .step = static_cast<int64_t>(kApplied) + 1,
                      .grad_factor = factor},
                     gradient, &expected);
    for (const bool speculates : {false, true}) {
      InEachOrder([&] {
        const Outcome outcome = Run(numbers, speculates);
        EXPECT_EQ(outcome.scalars[kLoss], 2.5);
        EXPECT_NEAR(outcome.scalars[kNorm], norm, 1e-12 * norm);
        EXPECT_NEAR(outcome.scalars[kFactor], factor, 1e-12);
        EXPECT_EQ(outcome.scalars[kClipped], factor < 1 ? 1 : 0);
        EXPECT_EQ(outcome.scalars[kApply], 1);
        testing::ExpectClose(outcome.state.param, expected.param, kTolerance);
        testing::ExpectClose(outcome.state.m, expected.m, kTolerance);
        testing::ExpectClose(outcome.state.v, expected.v, kTolerance);
      });
    }
  }
}

TEST_F(StepEndTest, AGradientThatIsNotFiniteChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    UpdateBytes numbers = Numbers(1);
    std::memcpy(numbers.arrays[0].data() + 999 * sizeof(float), &bad, sizeof(float));
    const std::vector<Floats> untouched = numbers.Values(numbers.next);
    InEachOrder([&] {
      const Outcome outcome = Run(numbers, false);
      EXPECT_EQ(outcome.scalars[kApply], 0);
      EXPECT_EQ(outcome.state.param, testing::Widen(untouched[0]));
      EXPECT_EQ(outcome.state.m, testing::Widen(untouched[2]));
      EXPECT_EQ(outcome.state.v, testing::Widen(untouched[3]));
    });
  }
}

}  // namespace
}  // namespace strata::kernels::cuda
