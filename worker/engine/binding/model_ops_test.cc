// Every bound op of a model against a direct call of its kernel on the same bytes.
#include <algorithm>
#include <cstring>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "worker/engine/binding/binding_testing.h"

namespace strata::worker {
namespace {

using program::Op;
using program::OpKind;
using program::Scalar;

TEST_F(OpBinding, MatMulRunsThePlanOfItsShape) {
  const kernels::MatmulShape shape{.m = 33,
                                   .n = 20,
                                   .k = 17,
                                   .trans_b = true,
                                   .lda = 17,
                                   .ldb = 17,
                                   .ldc = 20,
                                   .accumulate = true};
  const int a = Floats(33 * 17), b = Floats(20 * 17), c = Floats(33 * 20);
  const int workspace = Workspace(kernels::MatmulWorkspaceBytes(shape, 2));
  ExpectSame(
      {.kind = OpKind::kMatMul, .ints = {33, 20, 17, 0, 1, 1, 17, 17, 20}},
      [&] {
        auto plan = kernels::MatmulPlan::Create(shape, 2);
        ASSERT_TRUE(plan.ok());
        plan->Run(context_, D(a), D(b), D(c), Direct<void>(workspace));
      },
      workspace);
}

// Operands of bf16.
class HalfOpBinding : public OpBinding {
 protected:
  using Half = kernels::BFloat16;
  int Halves(int64_t count) {
    const int index = Bytes(count * 2);
    for (int64_t i = 0; i < count; ++i) {
      Bound<Half>(index)[i] = Direct<Half>(index)[i] =
          kernels::FromFloat<Half>(static_cast<float>(common::NormalAt(7 + index, i)));
    }
    return index;
  }
  static constexpr auto kHalf = static_cast<int64_t>(program::DType::kBF16);
};

TEST_F(HalfOpBinding, MatMulOfHalvesRunsThePlanOfItsTypes) {
  const kernels::MatmulShape shape{.m = 33,
                                   .n = 20,
                                   .k = 17,
                                   .trans_b = true,
                                   .type = kernels::NumberType::kBF16,
                                   .out_type = kernels::NumberType::kBF16};
  const int a = Halves(33 * 17), b = Halves(20 * 17), c = Halves(33 * 20);
  const int workspace = Workspace(kernels::MatmulWorkspaceBytes(shape, 2));
  ExpectSame(
      {.kind = OpKind::kMatMul, .ints = {33, 20, 17, 0, 1, 0, 0, 0, 0, kHalf, kHalf}},
      [&] {
        auto plan = kernels::MatmulPlan::Create(shape, 2);
        ASSERT_TRUE(plan.ok());
        plan->Run(context_, Direct<void>(a), Direct<void>(b), Direct<void>(c),
                  Direct<void>(workspace));
      },
      workspace);
}

TEST_F(HalfOpBinding, AttentionOfHalvesHasItsWindowSoftcapAndScale) {
  const kernels::AttentionShape shape{.batch = 2,
                                      .sequence = 5,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_size = 8,
                                      .scores = {.window = 3, .softcap = 2, .scale = 0.5F}};
  const int qkv = Halves(10 * 8 * 8), out = Halves(10 * 4 * 8), lse = Floats(10 * 4);
  const int workspace = Workspace(kernels::AttentionForwardWorkspaceBytes(shape, 2));
  ExpectSame(
      {.kind = OpKind::kAttentionForward, .ints = {2, 5, 4, 2, 8, 0, 3, kHalf}, .floats = {2, 0.5}},
      [&] {
        kernels::AttentionForward(context_, shape, Direct<Half>(qkv), nullptr, Direct<Half>(out),
                                  D(lse), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, EqualShapesShareAPlan) {
  const kernels::MatmulShape shape{.m = 4, .n = 4, .k = 4};
  kernels::MatmulShape other = shape;
  other.accumulate = true;
  EXPECT_EQ(*plans_.Get(shape), *plans_.Get(shape));
  EXPECT_NE(*plans_.Get(shape), *plans_.Get(other));
}

TEST_F(OpBinding, EmbeddingForwardReadsRows) {
  const int tokens = Ints(9, 11), table = Floats(11 * 8), y = Floats(9 * 8);
  ExpectSame({.kind = OpKind::kEmbeddingForward, .ints = {9, 11, 8, 0}}, [&] {
    kernels::EmbeddingForward(context_, {9, 8, 0, 11}, Direct<int32_t>(tokens), D(table), D(y));
  });
}

TEST_F(OpBinding, EmbeddingBackwardAddsToRows) {
  const int tokens = Ints(9, 11), dy = Floats(9 * 8), dtable = Floats(11 * 8);
  ExpectSame({.kind = OpKind::kEmbeddingBackward, .ints = {9, 11, 8, 0}}, [&] {
    kernels::EmbeddingBackward(context_, {9, 8, 0, 11}, Direct<int32_t>(tokens), D(dy), D(dtable));
  });
}

TEST_F(OpBinding, OpsOnAVocabularyThatIsCutBeginAtTheRanksOwnPart) {
  environment_.group_indices = {{program::Group::kTensor, 2}};
  const int64_t tensor = program::Group::kTensor.ToInt();
  const int tokens = Ints(9, 33), table = Floats(11 * 8), y = Floats(9 * 8);
  ExpectSame({.kind = OpKind::kEmbeddingForward, .ints = {9, 11, 8, tensor}}, [&] {
    kernels::EmbeddingForward(context_, {9, 8, 22, 11}, Direct<int32_t>(tokens), D(table), D(y));
  });
}

TEST_F(OpBinding, EmbeddingBackwardOfAPartAddsToTheRanksOwnRows) {
  environment_.group_indices = {{program::Group::kTensor, 1}};
  const int64_t tensor = program::Group::kTensor.ToInt();
  const int tokens = Ints(9, 22), dy = Floats(9 * 8), dtable = Floats(11 * 8);
  ExpectSame({.kind = OpKind::kEmbeddingBackward, .ints = {9, 11, 8, tensor}}, [&] {
    kernels::EmbeddingBackward(context_, {9, 8, 11, 11}, Direct<int32_t>(tokens), D(dy), D(dtable));
  });
}

TEST_F(OpBinding, CrossEntropyStatisticsAreOfTheRanksOwnColumns) {
  environment_.group_indices = {{program::Group::kTensor, 1}};
  const int64_t tensor = program::Group::kTensor.ToInt();
  const int logits = Floats(9 * 11), targets = Ints(9, 22), statistics = Floats(9 * 3);
  ExpectSame({.kind = OpKind::kCrossEntropyStatistics, .ints = {9, 11, tensor}}, [&] {
    kernels::CrossEntropyStatistics(context_, {9, 11, 11}, Direct<int32_t>(targets), D(logits),
                                    D(statistics));
  });
}

// Two blocks of three heads of four elements; two ranks share a head, so the fourth has the second.
TEST_F(OpBinding, HeadsAreTakenOfTheRanksOwnPartOfEachBlock) {
  environment_.group_indices = {{program::Group::kTensor, 3}};
  const int64_t tensor = program::Group::kTensor.ToInt();
  const int all = Floats(2 * 3 * 4), own = Floats(2 * 4);
  ExpectSame({.kind = OpKind::kTakeHeads, .ints = {2, 3, 4, tensor, 2}}, [&] {
    for (int i = 0; i < 8; ++i) D(own)[i] = D(all)[i / 4 * 12 + 4 + i % 4];
  });
}

TEST_F(OpBinding, HeadsAreAddedToTheRanksOwnPartOfEachBlock) {
  environment_.group_indices = {{program::Group::kTensor, 4}};
  const int64_t tensor = program::Group::kTensor.ToInt();
  const int all = Floats(2 * 3 * 4), own = Floats(2 * 4);
  ExpectSame({.kind = OpKind::kAddHeads, .ints = {2, 3, 4, tensor, 2}}, [&] {
    for (int i = 0; i < 8; ++i) D(all)[i / 4 * 12 + 8 + i % 4] += D(own)[i];
  });
}

TEST_F(OpBinding, RmsNormForwardNormalises) {
  const int x = Floats(5 * 24), w = Floats(24), y = Floats(5 * 24), rstd = Floats(5);
  ExpectSame({.kind = OpKind::kRmsNormForward, .ints = {5, 24}, .floats = {1e-5}}, [&] {
    kernels::RmsNormForward(context_, kernels::RmsNormShape{5, 24}, 1e-5f, D(x), D(w), D(y),
                            D(rstd));
  });
}

TEST_F(OpBinding, AddRmsNormForwardAddsFirst) {
  const int x = Floats(5 * 24), branch = Floats(5 * 24), w = Floats(24), sum = Floats(5 * 24);
  const int y = Floats(5 * 24), rstd = Floats(5);
  ExpectSame({.kind = OpKind::kAddRmsNormForward, .ints = {5, 24}, .floats = {1e-5}}, [&] {
    kernels::AddRmsNormForward(context_, kernels::RmsNormShape{5, 24}, 1e-5f, D(x), D(branch), D(w),
                               D(sum), D(y), D(rstd));
  });
}

TEST_F(OpBinding, RmsNormReplayScalesByTheGivenRstd) {
  const int x = Floats(5 * 24), w = Floats(24), rstd = Floats(5), y = Floats(5 * 24);
  ExpectSame({.kind = OpKind::kRmsNormReplay, .ints = {5, 24}}, [&] {
    kernels::RmsNormReplay(context_, kernels::RmsNormShape{5, 24}, D(x), D(w), D(rstd), D(y));
  });
}

TEST_F(OpBinding, RmsNormBackwardAccumulatesWhereAsked) {
  const int dy = Floats(5 * 24), x = Floats(5 * 24), w = Floats(24), rstd = Floats(5);
  const int dx = Floats(5 * 24), dw = Floats(24);
  const int workspace = Workspace(kernels::RmsNormBackwardWorkspaceBytes(5, 24));
  ExpectSame(
      {.kind = OpKind::kRmsNormBackward, .ints = {5, 24, 1}},
      [&] {
        kernels::RmsNormBackward(context_, kernels::RmsNormShape{5, 24}, D(dy), D(x), D(w), D(rstd),
                                 true, D(dx), D(dw), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, RopeTurnsFromPositionZero) {
  const int qkv = Floats(6 * 4 * 8), table = Floats(3 * 8);
  ExpectSame({.kind = OpKind::kRope, .ints = {6, 3, 2, 1, 8, 1, 0}}, [&] {
    kernels::RopeApply(context_,
                       {.rows = 6, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 8},
                       D(table), nullptr, true, D(qkv));
  });
}

TEST_F(OpBinding, RopeOfDocumentsTurnsByPositionsAndRefusesThoseOutsideTheTable) {
  const int qkv = Floats(6 * 4 * 8), table = Floats(3 * 8), positions = Ints(6, 3);
  const Op op{.kind = OpKind::kRope, .ints = {6, 3, 2, 1, 8, 1, 0, 1}};
  ExpectSame(op, [&] {
    kernels::RopeApply(context_,
                       {.rows = 6, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 8},
                       D(table), Direct<int32_t>(positions), true, D(qkv));
  });
  BoundOp bound;
  ASSERT_TRUE(Bind(op, &bound).ok());
  for (const int32_t outside : {-1, 3}) {
    Bound<int32_t>(positions)[2] = outside;
    EXPECT_TRUE(absl::IsOutOfRange(bound())) << outside;
  }
}

TEST_F(OpBinding, RopeStartsAtThePositionScalarAndLeavesPaddingAlone) {
  const int qkv = Floats(4 * 4 * 8), table = Floats(10 * 8), scalars = Scalars();
  Set(scalars, Scalar::kPosition, 7);  // of the four rows, the last is beyond the table
  BoundOp bound;
  const Op op{.kind = OpKind::kRope, .ints = {4, 4, 2, 1, 8, 0, 1}};
  ASSERT_TRUE(Bind(op, &bound).ok());
  ASSERT_TRUE(bound().ok());
  kernels::RopeApply(
      context_, {.rows = 3, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 8, .start = 7},
      D(table), nullptr, false, D(qkv));
  EXPECT_EQ(std::memcmp(F(qkv), D(qkv), 4 * 4 * 8 * 4), 0);
}

TEST_F(OpBinding, AttentionForwardAttends) {
  const kernels::AttentionShape shape{
      .batch = 2, .sequence = 5, .heads = 4, .kv_heads = 2, .head_size = 8};
  const int qkv = Floats(10 * 8 * 8), out = Floats(10 * 4 * 8), lse = Floats(10 * 4);
  const int workspace = Workspace(kernels::AttentionForwardWorkspaceBytes(shape, 2));
  ExpectSame(
      {.kind = OpKind::kAttentionForward, .ints = {2, 5, 4, 2, 8}},
      [&] {
        kernels::AttentionForward(context_, shape, D(qkv), nullptr, D(out), D(lse),
                                  Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, AttentionBackwardGivesTheGradientOfQkv) {
  const kernels::AttentionShape shape{
      .batch = 2, .sequence = 5, .heads = 4, .kv_heads = 2, .head_size = 8};
  const int dout = Floats(10 * 4 * 8), qkv = Floats(10 * 8 * 8), out = Floats(10 * 4 * 8);
  const int lse = Floats(10 * 4), dqkv = Floats(10 * 8 * 8);
  const int workspace = Workspace(kernels::AttentionBackwardWorkspaceBytes<float>(shape, 2));
  ExpectSame(
      {.kind = OpKind::kAttentionBackward, .ints = {2, 5, 4, 2, 8}},
      [&] {
        kernels::AttentionBackward(context_, shape, D(dout), D(qkv), D(out), D(lse), nullptr,
                                   D(dqkv), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, AttentionOfDocumentsAttendsInsideThem) {
  const kernels::AttentionShape shape{
      .batch = 2, .sequence = 5, .heads = 4, .kv_heads = 2, .head_size = 8};
  const int qkv = Floats(10 * 8 * 8), out = Floats(10 * 4 * 8), lse = Floats(10 * 4);
  const int positions = Bytes(10 * 4);
  const int workspace = Workspace(kernels::AttentionForwardWorkspaceBytes(shape, 2));
  for (int32_t row = 0; row < 10; ++row) {
    Bound<int32_t>(positions)[row] = Direct<int32_t>(positions)[row] = row % 5 % 2;
  }
  ExpectSame(
      {.kind = OpKind::kAttentionForward, .ints = {2, 5, 4, 2, 8, 1, 0, 0}, .floats = {0, 0}},
      [&] {
        kernels::AttentionForward(context_, shape, D(qkv), Direct<int32_t>(positions), D(out),
                                  D(lse), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, AttentionDecodeAppendsThenAttendsToWhatIsValid) {
  const kernels::DecodeShape shape{.batch = 1,
                                   .rows = 3,
                                   .context = 16,
                                   .position = 6,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_size = 8};
  const int qkv = Floats(4 * 8 * 8), k = Floats(16 * 16), v = Floats(16 * 16);
  const int scalars = Scalars(), out = Floats(4 * 32);
  kernels::DecodeShape widest = shape;
  widest.rows = 4, widest.position = 12;
  const int workspace = Workspace(kernels::DecodeAttentionWorkspaceBytes(widest, 2));
  Set(scalars, Scalar::kPosition, 6);
  Set(scalars, Scalar::kValidTokens, 3);
  const Op op{.kind = OpKind::kAttentionDecode, .ints = {4, 16, 4, 2, 8}};
  ExpectSame(
      op,
      [&] {
        kernels::AppendToCache(context_, shape, D(qkv), D(k), D(v));
        kernels::DecodeAttention(context_, shape, D(qkv), D(k), D(v), D(out),
                                 Direct<void>(workspace));
        std::fill_n(D(out) + 3 * 32, 32, 0.0f);
      },
      workspace);
  BoundOp bound;
  ASSERT_TRUE(Bind(op, &bound).ok());
  Set(scalars, Scalar::kPosition, 14);  // 14 + 3 > 16
  EXPECT_TRUE(absl::IsOutOfRange(bound()));
}

TEST_F(OpBinding, SwigluForwardGates) {
  const int gate_up = Floats(5 * 48), h = Floats(5 * 24);
  ExpectSame({.kind = OpKind::kSwigluForward, .ints = {5, 24}}, [&] {
    kernels::GatedForward(context_, 5, 24, kernels::Function::kSilu, D(gate_up), D(h));
  });
}

TEST_F(OpBinding, SwigluBackwardGivesBothGradients) {
  const int dh = Floats(5 * 24), gate_up = Floats(5 * 48), dgate_up = Floats(5 * 48);
  ExpectSame({.kind = OpKind::kSwigluBackward, .ints = {5, 24}}, [&] {
    kernels::GatedBackward(context_, 5, 24, kernels::Function::kSilu, D(dh), D(gate_up),
                           D(dgate_up));
  });
}

TEST_F(OpBinding, CrossEntropyScalesByTheInverseOfTheTokens) {
  const int logits = Floats(6 * 11), targets = Ints(6, 11), scalars = Scalars(), loss = Bytes(8);
  const int workspace = Workspace(kernels::CrossEntropyWorkspaceBytes(6));
  Set(scalars, Scalar::kInverseTokens, 0.125);
  ExpectSame(
      {.kind = OpKind::kCrossEntropy, .ints = {6, 11}},
      [&] {
        kernels::CrossEntropyForwardBackward(context_, kernels::LossShape{6, 11}, 0.125f,
                                             Direct<int32_t>(targets), D(logits),
                                             Direct<double>(loss), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, CrossEntropyLossLeavesLogits) {
  const int logits = Floats(6 * 11), targets = Ints(6, 11), loss = Bytes(8);
  const int workspace = Workspace(kernels::CrossEntropyWorkspaceBytes(6));
  ExpectSame(
      {.kind = OpKind::kCrossEntropyLoss, .ints = {6, 11}},
      [&] {
        kernels::CrossEntropyForward(context_, kernels::LossShape{6, 11}, Direct<int32_t>(targets),
                                     D(logits), Direct<double>(loss), Direct<void>(workspace));
      },
      workspace);
}

}  // namespace
}  // namespace strata::worker
