#include "planner/performance/kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/performance/performance_testing.h"

namespace strata::planner {
namespace {

TEST(Waves, BlocksThatFitAtOnceTakeOne) {
  EXPECT_DOUBLE_EQ(Waves(1, 100), 1);
  EXPECT_DOUBLE_EQ(Waves(100, 100), 1);
}

TEST(Waves, BlocksBeyondAFullWaveLieBetweenTheRatioAndTheCeiling) {
  EXPECT_DOUBLE_EQ(Waves(150, 100), 0.5 * (1.5 + 2));
  EXPECT_DOUBLE_EQ(Waves(300, 100), 3);
}

// 100 processors of 1 TFLOP/s; tiles of 256 x 128 over K = 1000 take 65.536 us and 1 us.
TEST(Products, FullWavesTakeTheirTilesTimeAndOneKernel) {
  Machine machine = RoundMachine();
  machine.gpu.memory_rate = 1e15;  // out of the way
  const double seconds = ProductSeconds(machine, Precision::kHalf, {1, 2560, 1280, 1000});
  EXPECT_NEAR(seconds, 2 * 256 * 128 * 1000 / 1e12 + 1e-6 + 3e-6, 1e-8);
}

TEST(Products, OneRowIsBoundByTheWeightsItReads) {
  const Machine machine = RoundMachine();
  const double seconds = ProductSeconds(machine, Precision::kHalf, {1, 1, 10000, 10000});
  EXPECT_GT(seconds, 10000.0 * 10000 * 2 / machine.gpu.memory_rate);
}

TEST(Products, ShortDepthLowersTheEfficiency) {
  const Machine machine = RoundMachine();
  const auto rate = [&](double k) {
    return 2 * 4096.0 * 4096 * k / ProductSeconds(machine, Precision::kHalf, {1, 4096, 4096, k});
  };
  EXPECT_LT(rate(128), rate(1024));
  EXPECT_LT(rate(1024), rate(8192));
}

TEST(Products, AccumulatedOutputCostsMoreThanWritten) {
  const Machine machine = RoundMachine();
  EXPECT_GT(ProductSeconds(machine, Precision::kHalf, {1, 8192, 8192, 512, 8}),
            ProductSeconds(machine, Precision::kHalf, {1, 8192, 8192, 512, 2}));
}

TEST(Products, NarrowPrecisionIsFasterButLessThanTwice) {
  const Machine machine = RoundMachine();
  const ProductSize size = {1, 8192, 8192, 8192};
  const double half = ProductSeconds(machine, Precision::kHalf, size);
  const double narrow = ProductSeconds(machine, Precision::kFp8, size);
  EXPECT_LT(narrow, half);
  EXPECT_GT(2 * narrow, half);
}

TEST(Memory, BytesAndKernelsAdd) {
  const Machine machine = RoundMachine();
  EXPECT_DOUBLE_EQ(MemorySeconds(machine, 1e9, 2), 1e9 / 1e12 + 2 * 3e-6);
}

TEST(Attention, FusedTimeIsTheCausalFlopsOverItsRate) {
  Machine machine = RoundMachine();
  machine.calibration.attention = 0.5;
  machine.gpu.kernel_seconds = 0;
  const double length = 12800;  // 100 blocks of 128: with 100 heads full waves
  const AttentionTime time = AttentionSeconds(machine, 1, 100, 128, length, length);
  const double causal = (length + 128) / (2 * length);
  const double flops = 4 * 100 * 128.0 * length * length * causal;
  const double depth = length * causal;
  EXPECT_NEAR(time.forward, flops / (1e14 * 0.5 * depth / (depth + 256)), 1e-6);
  EXPECT_NEAR(time.backward, 2.5 / 0.8 * time.forward, 1e-6);
}

TEST(Attention, KernelsOfAnOlderGenerationAreSlower) {
  Machine machine = RoundMachine();
  machine.gpu.generation = 9;
  machine.gpu.kernel_seconds = 0;
  const double own = AttentionSeconds(machine, 1, 32, 128, 8192, 8192).forward;
  machine.software.attention_generation = 8;
  EXPECT_NEAR(AttentionSeconds(machine, 1, 32, 128, 8192, 8192).forward, own / 0.55, 1e-9);
}

TEST(Attention, ScoresInMemoryCostMoreThanFused) {
  Machine machine = RoundMachine();
  const double fused = AttentionSeconds(machine, 4, 32, 128, 2048, 2048).forward;
  machine.software.attention = Software::Attention::kUnfused;
  EXPECT_GT(AttentionSeconds(machine, 4, 32, 128, 2048, 2048).forward, fused);
}

TEST(Attention, ContextRanksShareTheWork) {
  const Machine machine = RoundMachine();
  const double whole = AttentionSeconds(machine, 1, 32, 128, 32768, 32768).forward;
  const double quarter = AttentionSeconds(machine, 1, 32, 128, 8192, 32768).forward;
  EXPECT_NEAR(quarter, whole / 4, 0.1 * whole / 4);
}

}  // namespace
}  // namespace strata::planner
