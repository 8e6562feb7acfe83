#include "kernels/cuda/adamw.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/adamw.h"
#include "kernels/cuda/update_testing.h"
#include "kernels/reference/adamw.h"

namespace strata::kernels::cuda {
namespace {

constexpr AdamWRates kRates{.epsilon = 1e-6, .weight_decay = 0.1};
constexpr double kApplied = 2, kLearningRate = 0.01, kClipFactor = 0.25;

kernels::AdamWParams ParamsOf(bool decay) {
  return {.learning_rate = kLearningRate,
          .beta1 = kRates.beta1,
          .beta2 = kRates.beta2,
          .epsilon = kRates.epsilon,
          .weight_decay = decay ? kRates.weight_decay : 0,
          .step = static_cast<int64_t>(kApplied) + 1,
          .grad_factor = kClipFactor};
}

class AdamWTest : public standin::CudaTest {
 protected:
  using Segments = std::vector<UpdateSegment>;
  using Kernel = decltype(&AdamW);

  std::vector<UpdateBytes::Bytes> Run(UpdateBytes& numbers, const Segments& segments,
                                      bool in_place = false, Kernel kernel = &AdamW,
                                      const AdamWRates& rates = kRates) {
    ScalarsOnDevice scalars(stream(), kApplied, kLearningRate, kClipFactor);
    return numbers.OnTheDevice(stream(), in_place, [&](const NumbersOfUpdate& of) {
      STRATA_EXPECT_OK(kernel(stream(), rates, scalars.Get(), segments, of));
    });
  }

  static std::vector<UpdateBytes::Bytes> OnTheCpu(UpdateBytes& numbers, const Segments& segments) {
    device::ThreadPool pool(1);
    return numbers.OnTheHost([&](const NumbersOfUpdate& of) {
      for (const UpdateSegment& segment : segments) {
        MixedAdamW({&pool}, segment.begin, segment.end, ParamsOf(segment.decay), of);
      }
    });
  }

  // Weights, m and v by the f64 reference, all elements with decay or all without.
  static reference::AdamWState Expected(UpdateBytes& numbers, bool decay) {
    const std::vector<Floats> before = numbers.Before();
    reference::AdamWState state{testing::Widen(before[1]), testing::Widen(before[2]),
                                testing::Widen(before[3])};
    reference::AdamW(ParamsOf(decay), testing::Widen(numbers.Gradient()), &state);
    return state;
  }
};

const UpdateFormats kAllF32{.moments = {MomentFormat::kF32, MomentFormat::kF32}};
const UpdateFormats kSmallest{NumberType::kBF16,
                              NumberType::kBF16,
                              MasterFormat::kRemainder,
                              {MomentFormat::kSigned8, MomentFormat::kUnsigned8}};

TEST_F(AdamWTest, F32EqualsTheReferenceForEveryCount) {
  // Less than a thread's; with and without a rest; more than a round of a block.
  for (const int64_t count : {1, 8, 2051, 4096}) {
    const bool decay = count % 2 == 1;
    UpdateBytes numbers(kAllF32, count);
    const reference::AdamWState expected = Expected(numbers, decay);
    InEachOrder([&] {
      const auto values = numbers.Values(Run(numbers, {{0, count, decay}}));
      ExpectNumbers(values[0], expected.param);
      ExpectNumbers(values[2], expected.m);
      ExpectNumbers(values[3], expected.v);
    });
  }
}

TEST_F(AdamWTest, EveryFormatHasTheCpusBits) {
  using enum MomentFormat;
  const Segments segments = {{0, 256, true}, {256, 768, false}};
  const std::vector<UpdateFormats> all =
      AllFormats({{kF32, kF32}, {kBF16, kBF16}, {kSigned8, kUnsigned8}, {kBF16, kUnsigned8}});
  InEachOrder([&] {
    for (const UpdateFormats& formats : all) {
      SCOPED_TRACE(formats.Text());
      UpdateBytes numbers(formats, 768);
      ExpectSameBytes(Run(numbers, segments), OnTheCpu(numbers, segments));
    }
  });
}

// At a rate of 0 masters stay, so that what kernels read shows how they are rounded.
TEST_F(AdamWTest, WeightsBetweenTwoNumbersAreRoundedAwayFromZero) {
  Floats masters;
  for (const float half : {0x1p-8F, 0x1p-11F}) {  // of the last places of bf16 and f16, at 1
    for (const float size : {1.F, 3.F, -1.F, -0x1.8p5F, 0x1p-14F, -0x1p-23F, 6e4F}) {
      masters.push_back(size * (1 + half));
      masters.push_back(size * (1 + half - 0x1p-23F));
    }
  }
  masters.insert(masters.end(), {0, 0x1p-25F, -0x1p-26F, 65520, 65519, -1e9F, 3e38F});
  const auto count = static_cast<int64_t>(masters.size());
  InEachOrder([&] {
    for (const UpdateFormats& formats : AllFormats({{MomentFormat::kF32, MomentFormat::kF32}})) {
      SCOPED_TRACE(formats.Text());
      UpdateBytes numbers(formats, count);
      WriteMaster(numbers.Numbers(&UpdateBytes::Data).weights, 0, count, masters.data());
      ScalarsOnDevice scalars(stream(), kApplied, 0, 1);
      const auto after = numbers.OnTheDevice(stream(), false, [&](const NumbersOfUpdate& of) {
        STRATA_EXPECT_OK(AdamW(stream(), kRates, scalars.Get(), {{0, count, true}}, of));
      });
      const std::vector<Floats> values = numbers.Values(after);
      EXPECT_TRUE(testing::SameBits(values[1], masters));
      Floats rounded = masters;
      for (float& weight : rounded) {
        if (formats.weights == NumberType::kBF16) weight = ToFloat(RoundAwayToBFloat16(weight));
        if (formats.weights == NumberType::kF16) weight = ToFloat(RoundAwayToFloat16(weight));
      }
      EXPECT_TRUE(testing::SameBits(values[0], rounded));
    }
  });
}

TEST_F(AdamWTest, VersionsMayShareTheirBytes) {
  for (const UpdateFormats& formats : {kAllF32, kSmallest}) {
    UpdateBytes numbers(formats, 4352);  // more than a round of a block
    const Segments segments = {{0, 4352, true}};
    const auto expected = OnTheCpu(numbers, segments);
    InEachOrder([&] {
      auto after = Run(numbers, segments, true);
      EXPECT_EQ(after[0], numbers.arrays[0]);
      ExpectSameBytes(after, expected);
    });
  }
}

TEST_F(AdamWTest, UnalignedArraysAndSegmentsAreUpdatedOneByOneAndTheRestIsKept) {
  const Segments segments = {{3, 100, true}, {100, 291, false}, {292, 300, true}};
  InEachOrder([&] {
    for (const UpdateFormats& formats : AllFormats({{MomentFormat::kF32, MomentFormat::kBF16}})) {
      SCOPED_TRACE(formats.Text());
      UpdateBytes numbers(formats, 301, 1);
      ExpectSameBytes(Run(numbers, segments), OnTheCpu(numbers, segments));
    }
  });
  UpdateBytes numbers(kSmallest, 1024, 4);  // scales stay aligned
  const Segments blocks = {{256, 768, true}};
  const auto expected = OnTheCpu(numbers, blocks);
  InEachOrder([&] { ExpectSameBytes(Run(numbers, blocks), expected); });
}

TEST_F(AdamWTest, MoreSegmentsThanALaunchTakes) {
  UpdateBytes numbers(kAllF32, 70 * 16);
  Segments segments;
  for (int64_t i = 0; i < 70; ++i) segments.push_back({i * 16, i * 16 + 16, i % 2 == 0});
  const auto expected = OnTheCpu(numbers, segments);
  InEachOrder([&] { ExpectSameBytes(Run(numbers, segments), expected); });
}

TEST_F(AdamWTest, MomentsMayForgetAll) {
  UpdateBytes numbers(kAllF32, 300);
  kernels::AdamWParams params = ParamsOf(false);
  params.beta1 = params.beta2 = 0;
  device::ThreadPool pool(1);
  const auto expected = numbers.OnTheHost(
      [&](const NumbersOfUpdate& of) { MixedAdamW({&pool}, 0, 300, params, of); });
  AdamWRates rates = kRates;
  rates.beta1 = rates.beta2 = 0;
  InEachOrder([&] {
    ExpectSameBytes(Run(numbers, {{0, 300, false}}, false, &AdamW, rates), expected);
  });
}

// With moments that forget all, m is the gradient and v its square. Blocks of ones and of numbers
// around the middles between entries, some of which are nearer to one, some to the other.
TEST_F(AdamWTest, MomentsOnBothSidesOfTwoEntriesMiddleHaveTheCpusCodes) {
  Floats of_blocks;
  const auto add_around = [&](float value) {
    for (int step = -3; step <= 3; ++step) {
      if (of_blocks.size() % kMomentBlock == 0) of_blocks.push_back(1);
      const uint32_t bits = std::bit_cast<uint32_t>(value) + step;
      of_blocks.push_back(std::bit_cast<float>(bits) * (step % 2 == 0 ? 1.F : -1.F));
    }
  };
  const auto& entries = MomentTable(MomentFormat::kSigned8);
  const auto& squares = MomentTable(MomentFormat::kUnsigned8);
  for (int code = 127; code < 255; ++code) add_around((entries[code] + entries[code + 1]) / 2);
  for (int code = 0; code < 255; ++code) {
    add_around(std::sqrt((squares[code] + squares[code + 1]) / 2));
  }
  for (const float small : {0x1p-21F, 0x1p-22F, 0x1p-75F, 0x1p-130F}) add_around(small);
  of_blocks.resize((of_blocks.size() + kMomentBlock - 1) / kMomentBlock * kMomentBlock);
  const auto count = static_cast<int64_t>(of_blocks.size());

  kernels::AdamWParams params = ParamsOf(false);
  params.beta1 = params.beta2 = 0;
  AdamWRates rates = kRates;
  rates.beta1 = rates.beta2 = 0;
  device::ThreadPool pool(1);
  // By scales that are powers of two quotients are the numbers; by others they are rounded, and by
  // the last two they take the way of all numbers.
  for (const float scale : {1.F, 0.7F, -0.9999999F, 0x1p-30F, 0x1p-44F, 1e3F}) {
    SCOPED_TRACE(scale);
    UpdateFormats formats = kSmallest;
    formats.gradient = NumberType::kF32;
    UpdateBytes numbers(formats, count);
    Floats gradient = of_blocks;
    for (float& value : gradient) value *= scale;
    std::memcpy(numbers.arrays[0].data(), gradient.data(), gradient.size() * sizeof(float));
    const auto expected = numbers.OnTheHost(
        [&](const NumbersOfUpdate& of) { MixedAdamW({&pool}, 0, count, params, of); });
    ExpectSameBytes(Run(numbers, {{0, count, false}}, false, &AdamW, rates), expected);
  }
}

TEST_F(AdamWTest, NumbersFarFromOneHaveTheCpusBits) {
  const std::vector<float> sizes = {0,     0x1p-149F, 0x1p-140F, 0x1p-101F, 0x1p-99F, 0x1p-62F,
                                    1e-9F, 1,         0x1p14F,   0x1p16F,   0x1p59F,  0x1p61F,
                                    1e30F, 3e38F,     INFINITY,  NAN};
  const auto of_each = static_cast<int64_t>(sizes.size());
  const int64_t count = of_each * of_each;
  UpdateBytes numbers(kAllF32, count);
  for (int64_t i = 0; i < count; ++i) {
    const float m = sizes[i % of_each], v = sizes[i / of_each];
    std::memcpy(numbers.arrays[3].data() + i * 4, &m, 4);
    std::memcpy(numbers.arrays[4].data() + i * 4, &v, 4);
  }
  const Segments segments = {{0, count, true}};
  const auto expected = numbers.Values(OnTheCpu(numbers, segments));
  const auto actual = numbers.Values(Run(numbers, segments));
  for (size_t a = 0; a < expected.size(); ++a) {
    for (int64_t i = 0; i < count; ++i) {
      SCOPED_TRACE(
          absl::StrCat("array ", a, ", m ", sizes[i % of_each], ", v ", sizes[i / of_each]));
      if (std::isnan(expected[a][i])) {
        EXPECT_TRUE(std::isnan(actual[a][i]));
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(actual[a][i]), std::bit_cast<uint32_t>(expected[a][i]));
      }
    }
  }
}

TEST_F(AdamWTest, NothingChangesWhereThePredicateDoesNotHold) {
  UpdateBytes numbers(kSmallest, 512);
  const Segments segments = {{0, 512, true}};
  const auto expected = OnTheCpu(numbers, segments);
  for (const double apply : {0.0, 1.0}) {
    for (const bool negated : {false, true}) {
      InEachOrder([&] {
        ScalarsOnDevice scalars(stream(), kApplied, kLearningRate, kClipFactor, apply);
        const auto after = numbers.OnTheDevice(stream(), false, [&](const NumbersOfUpdate& of) {
          STRATA_EXPECT_OK(AdamW(stream(), kRates, scalars.Get(negated), segments, of));
        });
        ExpectSameBytes(after, (apply != 0) != negated ? expected : numbers.next);
      });
    }
  }
}

// The first moment of s + 1, made with factor 1, stands where gradients do.
TEST_F(AdamWTest, ASpeculativeUpdateIsCorrected) {
  UpdateBytes numbers(kAllF32, 2051);
  const std::vector<Floats> before = numbers.Before();
  kernels::AdamWParams speculation = ParamsOf(true);
  speculation.grad_factor = 1;
  reference::AdamWState speculative{testing::Widen(before[1]), testing::Widen(before[2]),
                                    testing::Widen(before[3])};
  const Floats gradient = numbers.Gradient();
  reference::AdamW(speculation, testing::Widen(gradient), &speculative);
  const Floats speculative_m(speculative.m.begin(), speculative.m.end());
  std::memcpy(numbers.arrays[0].data(), speculative_m.data(), speculative_m.size() * 4);

  Floats param(2051), m(2051), v(2051);
  device::ThreadPool pool(1);
  kernels::AdamWFixUp({&pool}, 2051, ParamsOf(true), speculative_m.data(), before[1].data(),
                      before[2].data(), before[3].data(), param.data(), m.data(), v.data());
  InEachOrder([&] {
    const auto values = numbers.Values(Run(numbers, {{0, 2051, true}}, false, &cuda::AdamWFixUp));
    EXPECT_EQ(values[0], param);
    EXPECT_EQ(values[2], m);
    EXPECT_EQ(values[3], v);
  });
  // And that is the update that waits for the norm, within rounding.
  reference::AdamWState expected{testing::Widen(before[1]), testing::Widen(before[2]),
                                 testing::Widen(before[3])};
  reference::AdamW(ParamsOf(true), testing::Widen(gradient), &expected);
  ExpectNumbers(param, expected.param);
  ExpectNumbers(m, expected.m);
}

TEST_F(AdamWTest, RefusesWhatItCannotUpdate) {
  UpdateBytes numbers(kSmallest, 512);
  const NumbersOfUpdate of = numbers.Numbers(&UpdateBytes::Data);
  const auto refusal = [&](const UpdateSegment& segment) {
    return AdamW(stream(), kRates, {}, {segment}, of).ToString();
  };
  EXPECT_NE(refusal({0, 300}).find("begin and end with one"), std::string::npos);
  EXPECT_NE(refusal({16, 256}).find("begin and end with one"), std::string::npos);
  EXPECT_NE(refusal({256, 0}).find("elements 256 to 0"), std::string::npos);
  EXPECT_FALSE(cuda::AdamWFixUp(stream(), kRates, {}, {{0, 256}}, of).ok());
}

}  // namespace
}  // namespace strata::kernels::cuda
