// What ops/ reserves for CUDA's kernels is what they ask for, but for the rounding of parts.
#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/headnorm.h"
#include "kernels/cuda/layernorm.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/rmsnorm.h"
#include "ops/attention.h"
#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/headnorm.h"
#include "ops/layernorm.h"
#include "ops/matmul.h"
#include "ops/rmsnorm.h"

namespace strata::parity {
namespace {

constexpr ops::Backend kCuda{.kind = ops::BackendKind::kCuda, .threads = 16};
constexpr int64_t kRows[] = {1, 7, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, 65536, 1000000};
constexpr int64_t kWidths[] = {1, 16, 37, 128, 768, 4096, 8192};

void ExpectHolds(int64_t given, int64_t needed) {
  ASSERT_GE(given, needed);
  ASSERT_LT(given, needed + program::kSlotAlignment);
}

TEST(CudaWorkspaceBoundsTest, NormsAndBiases) {
  namespace cuda = kernels::cuda;
  for (const int64_t rows : kRows) {
    for (const int64_t width : kWidths) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
      ExpectHolds(ops::RmsNormBackward{.rows = rows, .channels = width}.WorkspaceBytes(kCuda),
                  cuda::RmsNormBackwardWorkspaceBytes(rows, width));
      ExpectHolds(ops::LayerNormBackward{.rows = rows, .channels = width}.WorkspaceBytes(kCuda),
                  cuda::LayerNormBackwardWorkspaceBytes({.rows = rows, .channels = width}));
      ExpectHolds(ops::BiasGradient{.rows = rows, .width = width}.WorkspaceBytes(kCuda),
                  cuda::BiasGradientWorkspaceBytes(rows, width));
      for (const int64_t heads : {1, 5, 64}) {
        ExpectHolds(
            ops::HeadNormBackward{
                .shape = {.rows = rows, .heads = heads, .kv_heads = 1, .head_size = width}}
                .WorkspaceBytes(kCuda),
            cuda::HeadNormBackwardWorkspaceBytes(
                {.rows = rows, .heads = heads, .kv_heads = 1, .head_size = width}));
      }
      EXPECT_EQ(ops::RmsNormBackward({.rows = rows, .channels = width, .frozen = true})
                    .WorkspaceBytes(kCuda),
                0);
    }
  }
}

TEST(CudaWorkspaceBoundsTest, Attention) {
  for (const int64_t sequence : {1, 33, 4096}) {
    for (const int64_t heads : {1, 6, 32}) {
      const kernels::AttentionShape kernel{3, sequence, heads, 1, 64};
      const ops::AttentionShape op{
          .batch = 3, .sequence = sequence, .heads = heads, .kv_heads = 1, .head_size = 64};
      ExpectHolds(ops::AttentionBackward{op}.WorkspaceBytes(kCuda),
                  kernels::cuda::AttentionBackwardWorkspaceBytes(kernel));
      EXPECT_EQ(ops::AttentionForward{op}.WorkspaceBytes(kCuda), 0);
    }
  }
}

// A plan is made before it is known for which device.
TEST(CudaWorkspaceBoundsTest, ProductsOfEveryDevice) {
  const int64_t given = ops::MatMul{.m = 8, .n = 8, .k = 8}.WorkspaceBytes(kCuda);
  for (int major = 7; major < 13; ++major) {
    EXPECT_GE(given, kernels::cuda::MatmulWorkspaceBytes(major) + kCuda.cuda_alignment_bytes);
  }
  EXPECT_EQ(given, kernels::cuda::MatmulWorkspaceBytes(9) + kCuda.cuda_alignment_bytes);
}

// A loss per row, in f32.
TEST(CudaWorkspaceBoundsTest, CrossEntropy) {
  for (const int64_t rows : kRows) {
    EXPECT_GE((ops::CrossEntropy{.rows = rows, .vocab = 9}.WorkspaceBytes(kCuda)), rows * 4);
    EXPECT_GE((ops::CrossEntropyLoss{.rows = rows, .vocab = 9}.WorkspaceBytes(kCuda)), rows * 4);
  }
}

}  // namespace
}  // namespace strata::parity
