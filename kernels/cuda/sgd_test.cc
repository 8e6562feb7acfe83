#include "kernels/cuda/sgd.h"

#include "kernels/cuda/update_testing.h"
#include "kernels/reference/sgd.h"
#include "kernels/sgd.h"

namespace strata::kernels::cuda {
namespace {

constexpr SgdRates kRates{.momentum = 0.8, .weight_decay = 0.1};
constexpr double kLearningRate = 0.01, kClipFactor = 0.25;

kernels::SgdParams ParamsOf(bool decay) {
  return {.learning_rate = kLearningRate,
          .momentum = kRates.momentum,
          .weight_decay = decay ? kRates.weight_decay : 0,
          .grad_factor = kClipFactor};
}

class SgdTest : public standin::CudaTest {
 protected:
  std::vector<UpdateBytes::Bytes> Run(UpdateBytes& numbers,
                                      const std::vector<UpdateSegment>& segments,
                                      double apply = 1) {
    ScalarsOnDevice scalars(stream(), 0, kLearningRate, kClipFactor, apply);
    return numbers.OnTheDevice(stream(), false, [&](const NumbersOfUpdate& of) {
      STRATA_EXPECT_OK(Sgd(stream(), kRates, scalars.Get(), segments, of));
    });
  }
};

TEST_F(SgdTest, F32EqualsTheReferenceForEveryCount) {
  for (const int64_t count : {1, 8, 2051, 4096}) {
    const bool decay = count % 2 == 1;
    UpdateBytes numbers({.moments = {MomentFormat::kF32}}, count);
    const std::vector<Floats> before = numbers.Before();
    Doubles weights = testing::Widen(before[1]), buffer = testing::Widen(before[2]);
    reference::Sgd(ParamsOf(decay), testing::Widen(numbers.Gradient()), &weights, &buffer);
    InEachOrder([&] {
      const auto values = numbers.Values(Run(numbers, {{0, count, decay}}));
      ExpectNumbers(values[0], weights);
      ExpectNumbers(values[2], buffer);
    });
  }
}

TEST_F(SgdTest, EveryFormatHasTheCpusBits) {
  const std::vector<UpdateSegment> segments = {{0, 256, true}, {256, 768, false}};
  const std::vector<UpdateFormats> all =
      AllFormats({{MomentFormat::kF32}, {MomentFormat::kBF16}, {MomentFormat::kSigned8}});
  device::ThreadPool pool(1);
  InEachOrder([&] {
    for (const UpdateFormats& formats : all) {
      SCOPED_TRACE(formats.Text());
      UpdateBytes numbers(formats, 768);
      const auto expected = numbers.OnTheHost([&](const NumbersOfUpdate& of) {
        for (const auto& [begin, end, decay] : segments) {
          kernels::Sgd({&pool}, begin, end, ParamsOf(decay), of);
        }
      });
      ExpectSameBytes(Run(numbers, segments), expected);
    }
  });
}

TEST_F(SgdTest, NothingChangesWhereThePredicateDoesNotHold) {
  UpdateBytes numbers({.moments = {MomentFormat::kF32}}, 300);
  InEachOrder([&] { ExpectSameBytes(Run(numbers, {{0, 300, true}}, 0), numbers.next); });
}

}  // namespace
}  // namespace strata::kernels::cuda
