// Single operations: what the device computes equals what the host does.
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/rng.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

class InstructionsTest : public CudaTest {};

ScalarInput InputAt(uint64_t i) {
  ScalarInput in;
  in.u = static_cast<uint32_t>(common::MixBits(1, i));
  in.i = static_cast<int32_t>(common::MixBits(2, i));
  in.l = static_cast<int64_t>(common::MixBits(3, i));
  in.f = common::NormalAt(4, i);
  in.d = common::NormalAt(5, i);
  if (i == 0) in = {1.f, 1., 0, 0, 0};
  if (i == 1) in = {-0.5f, -3., INT32_MIN, ~uint32_t{0}, INT64_MIN + 1};
  return in;
}

void ExpectNear(float got, double wanted, double error) {
  EXPECT_LE(std::fabs(got - wanted), error * (1 + std::fabs(wanted))) << got << " " << wanted;
}

void CheckFloats(const ScalarInput& in, const ScalarOutput& out) {
  EXPECT_EQ(out.sum, in.f + 1.5f);
  EXPECT_EQ(out.product, in.f * in.f);
  EXPECT_EQ(out.quotient, 3.f / in.f);
  EXPECT_EQ(out.fused, std::fma(in.f, in.f, -1.f));
  EXPECT_EQ(out.root, std::sqrt(std::fabs(in.f)));
  EXPECT_EQ(out.smaller, std::fmin(in.f, 0.25f));
  EXPECT_EQ(out.rounded_down, std::floor(in.f * 10));
  const double exact = static_cast<double>(in.f) + 1e-9f;
  const float nearest = static_cast<float>(exact);
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(exact);
  EXPECT_EQ(out.to_zero, away ? std::nextafter(nearest, 0.f) : nearest);
  ExpectNear(out.exponential, std::exp(static_cast<double>(in.f)), 1e-6);
  ExpectNear(out.logarithm, std::log(std::fabs(static_cast<double>(in.f))), 1e-6);
  ExpectNear(out.sine, std::sin(static_cast<double>(in.f * 1e5f)), 1e-6);
  ExpectNear(out.power, std::pow(std::fabs(static_cast<double>(in.f)), 1.5), 1e-6);
  EXPECT_EQ(out.d_sum, in.d + in.f);
  EXPECT_EQ(out.d_quotient, in.d / 7);
  EXPECT_EQ(out.d_root, std::sqrt(std::fma(in.d, in.d, 1)));
  const float brain = __bfloat162float(out.brain);
  EXPECT_EQ(brain, __bfloat162float(__float2bfloat16(in.f)));
  ExpectNear(__bfloat162float(out.brain_fused), static_cast<double>(brain) * brain + 0.1, 4e-3);
}

void CheckIntegers(const ScalarInput& in, const ScalarOutput& out) {
  EXPECT_EQ(out.quotient_i, in.i / 7);
  EXPECT_EQ(out.remainder_i, in.i % (static_cast<int>(in.u % 100) + 1));
  EXPECT_EQ(out.high, static_cast<int32_t>(static_cast<int64_t>(in.i) * in.i >> 32));
  EXPECT_EQ(out.population, std::popcount(in.u));
  EXPECT_EQ(out.leading_zeros, std::countl_zero(static_cast<uint32_t>(in.i)));
  EXPECT_EQ(out.first_set, in.i == 0 ? 0 : std::countr_zero(static_cast<uint32_t>(in.i)) + 1);
  EXPECT_EQ(out.shifted, in.i >> (in.u & 15));
  EXPECT_EQ(out.to_int, static_cast<int>(std::nearbyint(in.f * 1000)));
  const uint64_t both = static_cast<uint64_t>(static_cast<uint32_t>(in.i)) << 32 | in.u;
  EXPECT_EQ(static_cast<uint32_t>(out.funnel), static_cast<uint32_t>(both << (in.u & 31) >> 32));
  const auto byte = [&](int i) { return static_cast<uint32_t>(both >> (8 * i) & 255); };
  EXPECT_EQ(static_cast<uint32_t>(out.permuted),
            byte(2) << 24 | byte(5) << 16 | byte(1) << 8 | byte(7));
  EXPECT_EQ(out.byte_sum, static_cast<int8_t>(in.i) + static_cast<int16_t>(in.u));
  EXPECT_EQ(out.quotient_u, in.u / 10);
  EXPECT_EQ(out.high_u, static_cast<uint32_t>(static_cast<uint64_t>(in.u) * in.u >> 32));
  uint32_t reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (in.u >> i & 1) << (31 - i);
  EXPECT_EQ(out.reversed, reversed);
  EXPECT_EQ(out.wide, static_cast<int64_t>(in.i) * in.i);
  EXPECT_EQ(static_cast<uint64_t>(out.product_l),
            static_cast<uint64_t>(in.l) * 3 + static_cast<uint64_t>(int64_t{in.i}));
  EXPECT_EQ(out.quotient_l, in.l / (in.i | 1));
  EXPECT_EQ(out.high_l, static_cast<int64_t>(static_cast<__int128>(in.l) * in.l >> 64));
}

TEST_F(InstructionsTest, ScalarOperationsEqualTheHosts) {
  constexpr int kCount = 100;
  std::vector<ScalarInput> inputs(kCount);
  for (int i = 0; i < kCount; ++i) inputs[i] = InputAt(i);
  InEachOrder([&] {
    DeviceArray<ScalarInput> in(inputs, stream());
    // Padding is never written, and is not read back as if it were.
    DeviceArray<ScalarOutput> out(std::vector<ScalarOutput>(kCount), stream());
    ComputeScalars(stream(), kCount, in.data(), out.data());
    const auto outputs = out.ToHost();
    for (int i = 0; i < kCount; ++i) {
      SCOPED_TRACE(i);
      CheckFloats(inputs[i], outputs[i]);
      CheckIntegers(inputs[i], outputs[i]);
    }
  });
}

TEST_F(InstructionsTest, SmallFloatsAreRoundedToNearestEven) {
  const std::vector<float> values = {1.f, 0.1f, 65504.f, 6e-8f, 1e-8f, -2.5f, 3.1415926f};
  const std::vector<uint16_t> halves = {0x3c00, 0x2e66, 0x7bff, 0x0001, 0x0000, 0xc100, 0x4248};
  // × 100 in e4m3, whose largest value is 448.
  const std::vector<uint8_t> e4m3 = {0x6c, 0x52, 0x7e, 0x00, 0x00, 0xf8, 0x7a};
  std::vector<ScalarInput> inputs;
  for (const float value : values) inputs.push_back({value, 0, 1, 1, 1});
  InEachOrder([&] {
    DeviceArray<ScalarInput> in(inputs, stream());
    DeviceArray<ScalarOutput> out(std::vector<ScalarOutput>(inputs.size()), stream());
    ComputeScalars(stream(), static_cast<int>(inputs.size()), in.data(), out.data());
    const auto outputs = out.ToHost();
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(outputs[i].half_bits, halves[i]) << values[i];
      EXPECT_EQ(outputs[i].small, e4m3[i]) << values[i];
    }
  });
}

TEST_F(InstructionsTest, LanesOfAWarpExchangeAndVote) {
  constexpr int kThreads = 64;
  std::vector<int> values(kThreads);
  for (int i = 0; i < kThreads; ++i) values[i] = i + 1;
  InEachOrder([&] {
    DeviceArray<int> in(values, stream());
    DeviceArray<WarpOutput> out(kThreads, stream());
    ComputeWarp(stream(), kThreads, in.data(), out.data());
    const auto outputs = out.ToHost();
    for (int i = 0; i < kThreads; ++i) {
      SCOPED_TRACE(i);
      const int lane = i % 32, base = i - lane;
      EXPECT_EQ(outputs[i].down, values[lane + 3 < 32 ? i + 3 : i]);
      EXPECT_EQ(outputs[i].up, values[lane >= 3 ? i - 3 : i]);
      EXPECT_EQ(outputs[i].butterfly, values[base + (lane ^ 5)]);
      EXPECT_EQ(outputs[i].index, values[base + 7]);
      EXPECT_EQ(outputs[i].segment, values[lane % 8 == 7 ? i : i + 1]);
      EXPECT_EQ(outputs[i].ballot, 0xaaaaaaaau);
      EXPECT_EQ(outputs[i].any, base == 32);
      EXPECT_EQ(outputs[i].all, 1);
      EXPECT_EQ(outputs[i].sum, 32 * base + 32 * 33 / 2);
      EXPECT_EQ(outputs[i].least, base + 1);
      EXPECT_EQ(outputs[i].counted, 16);
      EXPECT_EQ(std::popcount(outputs[i].match), values[i] % 3 == (base == 0 ? 0 : 2) ? 10 : 11);
      // Lanes of a branch need not be together: each is among those that it sees.
      EXPECT_EQ(outputs[i].active & ~0xaaaaaaaau, 0u);
      if (values[i] % 2 == 0) {
        EXPECT_NE(outputs[i].active >> lane & 1, 0u);
      }
    }
  });
}

TEST_F(InstructionsTest, DeviceVariablesHaveTheirValues) {
  InEachOrder([&] {
    DeviceArray<float> out(4, stream());
    SetTable({10, 20, 30, 40}, stream());
    ReadTable(stream(), out.data());
    EXPECT_EQ(out.ToHost(), (std::vector<float>{11, 22, 34, 48}));
  });
}

}  // namespace
}  // namespace strata::standin
