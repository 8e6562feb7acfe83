#include "kernels/sgd.h"

#include "gtest/gtest.h"
#include "kernels/cpu/update_testing.h"
#include "kernels/reference/sgd.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;
using testing::OwnNumbers;

TEST(Sgd, TwentyStepsMatchTheReference) {
  for (const int64_t count : {1, 255, 20003}) {
    SgdParams params = {
        .learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .grad_factor = 0.7};
    const Floats start = testing::Random(count, 1);
    Doubles weights = testing::Widen(start), buffer(count);
    for (int step = 1; step <= 20; ++step) {
      reference::Sgd(params, testing::Widen(testing::Random(count, 100 + step)), &weights, &buffer);
    }
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      OwnNumbers own(count, NumberType::kF32, MasterFormat::kNone, {MomentFormat::kF32});
      own.SetWeights(start);
      for (int step = 1; step <= 20; ++step) {
        own.SetGradient(testing::Random(count, 100 + step));
        Sgd(c, 0, count, params, own.numbers());
      }
      return testing::Concat({own.Masters(), own.Moment(0)});
    });
    testing::ExpectClose(result, testing::Concat({weights, buffer}), 1e-6);
  }
}

TEST(Sgd, NarrowNumbersFollowTheReferenceAndBothMastersHaveTheSameBits) {
  const int64_t count = 4 * kMomentBlock;
  const SgdParams params = {.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1};
  const Floats start = testing::Random(count, 1);
  device::ThreadPool pool(2);
  OwnNumbers f32(count, NumberType::kBF16, MasterFormat::kF32, {MomentFormat::kSigned8});
  OwnNumbers split(count, NumberType::kBF16, MasterFormat::kRemainder, {MomentFormat::kSigned8});
  Doubles weights = testing::Widen(start), buffer(count);
  for (OwnNumbers* own : {&f32, &split}) own->SetWeights(start);
  for (int step = 1; step <= 100; ++step) {
    const Floats gradient = testing::Random(count, 100 + step);
    reference::Sgd(params, testing::Widen(gradient), &weights, &buffer);
    for (OwnNumbers* own : {&f32, &split}) {
      own->SetGradient(gradient);
      Sgd({&pool}, 0, count, params, own->numbers());
    }
    ASSERT_TRUE(testing::SameBits(f32.Masters(), split.Masters())) << step;
    ASSERT_TRUE(testing::SameBits(f32.Weights(), split.Weights())) << step;
  }
  testing::ExpectClose(f32.Masters(), weights, 0.03);
}

}  // namespace
}  // namespace strata::kernels
