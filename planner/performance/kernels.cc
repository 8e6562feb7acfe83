#include "planner/performance/kernels.h"

#include <algorithm>
#include <cmath>

namespace strata::planner {
namespace {

// Output tiles that libraries choose from, and what smaller ones lose to operand traffic.
struct Tile {
  double m, n, efficiency;
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.75}, {64, 64, 0.5}};

// Of the output's traffic, what the next tile's products do not hide.
constexpr double kExposedOutput = 0.75;

constexpr double kSplitDepth = 1024;  // a split of K is at least this deep

double OperandBytes(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 4;
    case Precision::kHalf:
      return 2;
    case Precision::kFp8:
    case Precision::kMxfp8:
      return 1;
    case Precision::kNvfp4:
      return 0.5625;  // with a scale of one byte per 16 elements
  }
  return 2;
}

}  // namespace

double Waves(double blocks, double processors) {
  const double ratio = blocks / processors;
  return ratio <= 1 ? 1 : 0.5 * (ratio + std::ceil(ratio));
}

double ProductSeconds(const Machine& machine, Precision precision, const ProductSize& size) {
  const auto& [batch, m, n, k, output_bytes] = size;
  const Gpu& gpu = machine.gpu;
  const double processors = static_cast<double>(gpu.processors);
  const double rate =
      gpu.peak[static_cast<int>(precision)] * machine.calibration.product / processors;
  double best = 1e30;
  for (const Tile& tile : kTiles) {
    const double tiles = batch * std::ceil(m / tile.m) * std::ceil(n / tile.n);
    // Few tiles over a deep K: the depth is split among idle processors.
    const double splits =
        std::max(1.0, std::min(std::floor(processors / tiles), std::floor(k / kSplitDepth)));
    const double depth = k / splits;
    const double wave = 2 * tile.m * tile.n * depth / (rate * tile.efficiency) + gpu.tile_seconds;
    best = std::min(best, Waves(tiles * splits, processors) * wave);
  }
  const double memory_rate = gpu.memory_rate * machine.calibration.memory;
  const double output = batch * m * n * output_bytes / memory_rate;
  const double inputs = batch * (m * k + k * n) * OperandBytes(precision) / memory_rate;
  return std::max(best + kExposedOutput * output, inputs + output) + gpu.kernel_seconds;
}

double WidthOf(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

double MemorySeconds(const Machine& machine, double bytes, double kernels) {
  return bytes / (machine.gpu.memory_rate * machine.calibration.memory) +
         kernels * machine.gpu.kernel_seconds;
}

double LossSeconds(const Machine& machine, double bytes, double kernels) {
  constexpr double kMostRate = 2.4e12;
  return std::max(MemorySeconds(machine, bytes, kernels), bytes / kMostRate);
}

namespace {

// Kernels of an older generation reach this share of those that a GPU's own allows:
// FlashAttention-2 350 to 400 TFLOP/s on H100, FlashAttention-3 650 to 740 (arXiv:2407.08608,
// section 4.1).
constexpr double kOlderKernels = 0.55;

double AttentionShare(const Machine& machine) {
  const int64_t behind =
      std::max<int64_t>(0, machine.gpu.generation - machine.software.attention_generation);
  return machine.software.attention_share * std::pow(kOlderKernels, static_cast<double>(behind));
}

// FlashAttention-2 (arXiv:2307.08691, section 3): scores never leave the processor. FLOPs are those
// of the blocks at or below the diagonal; the backward has five products to the forward's two.
AttentionTime FusedSeconds(const Machine& machine, double batch, double heads, double head_dim,
                           double queries, double length, Precision precision) {
  constexpr double kBlock = 128;
  constexpr double kFill = 256;          // keys' worth of time that starts a row of blocks
  constexpr double kBackwardRate = 0.8;  // of the forward's: atomics, more registers
  const double causal = std::min(1.0, (length + kBlock) / (2 * length));
  const double flops = 4 * batch * heads * head_dim * queries * length * causal;
  const double depth = length * causal;
  const double blocks = batch * heads * std::ceil(queries / kBlock);
  const double processors = static_cast<double>(machine.gpu.processors);
  const double waves = Waves(blocks, processors);
  const double occupied = blocks / (waves * processors);
  // Heads of 64 feed the tensor cores half as deep products.
  const double narrow = head_dim / (head_dim + 32) * (128.0 + 32) / 128;
  const double rate = machine.gpu.peak[static_cast<int>(precision)] *
                      machine.calibration.attention * AttentionShare(machine) *
                      std::min(1.1, narrow) * occupied * depth / (depth + kFill);
  AttentionTime time;
  time.forward = flops / rate + machine.gpu.kernel_seconds;
  time.backward = 2.5 * flops / (rate * kBackwardRate) + 2 * machine.gpu.kernel_seconds;
  return time;
}

// Scores, softmax and dropout in memory, as Megatron-LM before fused attention (arXiv:2205.05198,
// figure 3): no block is skipped. Passes over the scores, 2 bytes each: written, scaled and
// softmaxed (2), dropped out with its mask (2.5), read (1); the backward reads and writes 9.
AttentionTime UnfusedSeconds(const Machine& machine, double batch, double heads, double head_dim,
                             double queries, double length, Precision precision) {
  constexpr double kForwardPasses = 6.5, kBackwardPasses = 9;
  const double scores = batch * heads * queries * length;
  const double width = WidthOf(precision);
  const double outer =
      ProductSeconds(machine, precision, {batch * heads, queries, length, head_dim, width});
  const double inner =
      ProductSeconds(machine, precision, {batch * heads, queries, head_dim, length, width});
  // The products' own reads and writes of scores are counted by them.
  AttentionTime time;
  time.forward = outer + inner + MemorySeconds(machine, scores * width * (kForwardPasses - 2), 3);
  time.backward =
      2 * outer + 2 * inner + MemorySeconds(machine, scores * width * (kBackwardPasses - 4), 3);
  return time;
}

}  // namespace

AttentionTime AttentionSeconds(const Machine& machine, double batch, double heads, double head_dim,
                               double queries, double length, Precision precision) {
  const Precision scores = precision == Precision::kFp32 ? precision : Precision::kHalf;
  return machine.software.attention == Software::Attention::kFused
             ? FusedSeconds(machine, batch, heads, head_dim, queries, length, scores)
             : UnfusedSeconds(machine, batch, heads, head_dim, queries, length, scores);
}

}  // namespace strata::planner
