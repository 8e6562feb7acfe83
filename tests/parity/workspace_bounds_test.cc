// What ops/ reserves for kernels and collectives is at least what they ask for.
#include "collectives/communicator.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/headnorm.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "ops/attention.h"
#include "ops/bias.h"
#include "ops/collective.h"
#include "ops/cross_entropy.h"
#include "ops/headnorm.h"
#include "ops/layernorm.h"
#include "ops/matmul.h"
#include "ops/rmsnorm.h"

namespace strata::parity {
namespace {

constexpr int kThreads[] = {1, 2, 3, 16, 256};
constexpr int64_t kSizes[] = {1, 5, 6, 7, 16, 37, 96, 255, 257, 768, 2048, 2113, 4224, 50257};

TEST(WorkspaceBoundsTest, MatMul_IsEnoughAndNotWasteful) {
  for (const int threads : kThreads) {
    for (const int64_t m : kSizes) {
      for (const int64_t n : kSizes) {
        for (const int64_t k : kSizes) {
          const int64_t needed = kernels::MatmulWorkspaceBytes({.m = m, .n = n, .k = k}, threads);
          const int64_t given =
              ops::MatMul{.m = m, .n = n, .k = k}.WorkspaceBytes({.threads = threads});
          ASSERT_GE(given, needed) << m << " " << n << " " << k << " threads " << threads;
          ASSERT_LE(given, needed + (int64_t{2} << 20)) << m << " " << n << " " << k;
          const kernels::MatmulShape half = {.m = m,
                                             .n = n,
                                             .k = k,
                                             .type = kernels::NumberType::kBF16,
                                             .out_type = kernels::NumberType::kBF16};
          const ops::MatMul op = {.m = m,
                                  .n = n,
                                  .k = k,
                                  .type = program::DType::kBF16,
                                  .out_type = program::DType::kBF16};
          ASSERT_GE(op.WorkspaceBytes({.threads = threads}),
                    kernels::MatmulWorkspaceBytes(half, threads));
        }
      }
    }
  }
}

// Bounds are those of the widest vectors, as programs do not know where they will run: kernels with
// narrower ones take less.
constexpr int64_t kWasteful = 3;

TEST(WorkspaceBoundsTest, Attention_IsEnoughAndNotWasteful) {
  for (const int threads : kThreads) {
    for (const int64_t kv_heads : {1, 2, 5, 8}) {
      for (const int64_t group : {1, 2, 5, 16, 97, 200}) {
        for (const int64_t head_size : {2, 10, 16, 40, 64, 96, 128, 130, 256}) {
          for (const int64_t sequence : {1, 33, 4096}) {
            const kernels::AttentionShape kernel{3, sequence, kv_heads * group, kv_heads,
                                                 head_size};
            const ops::Backend backend{.threads = threads};
            const ops::AttentionShape shape{3, sequence, kv_heads * group, kv_heads, head_size};
            const int64_t forward = kernels::AttentionForwardWorkspaceBytes(kernel, threads);
            const int64_t given_forward = ops::AttentionForward{shape}.WorkspaceBytes(backend);
            ASSERT_GE(given_forward, forward);
            ASSERT_LE(given_forward, kWasteful * forward);
            const int64_t backward =
                kernels::AttentionBackwardWorkspaceBytes<float>(kernel, threads);
            const int64_t given_backward = ops::AttentionBackward{shape}.WorkspaceBytes(backend);
            ASSERT_GE(given_backward, backward);
            ASSERT_LE(given_backward, kWasteful * backward);
            ops::AttentionShape half = shape;
            half.type = program::DType::kBF16;
            ASSERT_GE(ops::AttentionBackward{half}.WorkspaceBytes(backend),
                      kernels::AttentionBackwardWorkspaceBytes<kernels::BFloat16>(kernel, threads));
            const kernels::DecodeShape decode{1,        sequence, sequence, 0, kv_heads * group,
                                              kv_heads, head_size};
            const ops::AttentionDecode chunk{sequence, sequence, kv_heads * group, kv_heads,
                                             head_size};
            ASSERT_GE(chunk.WorkspaceBytes(backend),
                      kernels::DecodeAttentionWorkspaceBytes(decode, threads));
          }
        }
      }
    }
  }
}

TEST(WorkspaceBoundsTest, NormsAndLosses_AreEnough) {
  for (const int64_t rows : kSizes) {
    EXPECT_GE(ops::CrossEntropy{.rows = rows}.WorkspaceBytes({}),
              kernels::CrossEntropyWorkspaceBytes(rows));
    for (const int64_t channels : kSizes) {
      EXPECT_GE((ops::LayerNormBackward{rows, channels}.WorkspaceBytes({})),
                kernels::LayerNormBackwardWorkspaceBytes({rows, channels}));
      EXPECT_GE((ops::BiasGradient{rows, channels}.WorkspaceBytes({})),
                kernels::BiasGradientWorkspaceBytes(rows, channels));
      EXPECT_GE((ops::HeadNormBackward{{.rows = rows, .head_size = channels}}.WorkspaceBytes({})),
                kernels::HeadNormBackwardWorkspaceBytes({.rows = rows, .head_size = channels}));
      EXPECT_GE((ops::RmsNormBackward{rows, channels}.WorkspaceBytes({})),
                kernels::RmsNormBackwardWorkspaceBytes(rows, channels));
    }
  }
}

TEST(WorkspaceBoundsTest, ReduceScatterScratch_IsEnough) {
  for (const int members : {2, 3, 4, 8, 64}) {
    for (const int64_t count : kSizes) {
      EXPECT_GE(ops::ReduceScatterScratchBytes(count * members * 4, members),
                collectives::ScratchBytes(collectives::OpKind::kReduceScatter,
                                          collectives::DataType::kF32, count, members));
    }
  }
}

}  // namespace
}  // namespace strata::parity
