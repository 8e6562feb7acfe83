// Bound ops of dense models, of types of numbers, against direct calls of their kernels on the same
// bytes.
#include "kernels/activation.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/headnorm.h"
#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "ops/activation.h"
#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/headnorm.h"
#include "ops/layernorm.h"
#include "ops/positions.h"
#include "ops/rmsnorm.h"
#include "ops/rope.h"
#include "ops/shared_heads.h"
#include "worker/engine/binding/binding_testing.h"

namespace strata::worker {
namespace {

using kernels::BFloat16;
using program::DType;
using program::Scalar;

class DenseOps : public OpBinding {
 protected:
  // An operand of `count` numbers of bf16.
  int Halves(int64_t count) {
    const int index = Bytes(count * 2);
    for (int64_t i = 0; i < count; ++i) {
      H(index)[i] = D16(index)[i] = kernels::FromFloat<BFloat16>(common::NormalAt(7 + index, i));
    }
    return index;
  }
  BFloat16* H(int index) { return Bound<BFloat16>(index); }
  BFloat16* D16(int index) { return Direct<BFloat16>(index); }
};

TEST_F(DenseOps, LayerNormForward) {
  const int x = Floats(5 * 24), w = Floats(24), b = Floats(24), y = Floats(5 * 24);
  const int statistics = Floats(5 * 2);
  ExpectSame(ops::ToOp(ops::LayerNormForward{.rows = 5, .channels = 24, .epsilon = 1e-5}), [&] {
    kernels::LayerNormForward(context_, {5, 24}, 1e-5f, D(x), D(w), D(b), D(y), D(statistics));
  });
}

TEST_F(DenseOps, AddLayerNormForward) {
  const int x = Halves(5 * 24), branch = Halves(5 * 24), w = Halves(24), b = Halves(24);
  const int sum = Halves(5 * 24), y = Halves(5 * 24), statistics = Floats(5 * 2);
  const ops::AddLayerNormForward op{
      .rows = 5, .channels = 24, .epsilon = 1e-5, .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::AddLayerNormForward(context_, {5, 24}, 1e-5f, D16(x), D16(branch), D16(w), D16(b),
                                 D16(sum), D16(y), D(statistics));
  });
}

TEST_F(DenseOps, LayerNormReplay) {
  const int x = Floats(5 * 24), w = Floats(24), b = Floats(24), statistics = Floats(5 * 2);
  const int y = Floats(5 * 24);
  ExpectSame(ops::ToOp(ops::LayerNormReplay{.rows = 5, .channels = 24}), [&] {
    kernels::LayerNormReplay(context_, {5, 24}, D(x), D(w), D(b), D(statistics), D(y));
  });
}

TEST_F(DenseOps, LayerNormBackward) {
  const int dy = Halves(5 * 24), x = Halves(5 * 24), w = Halves(24), statistics = Floats(5 * 2);
  const int dx = Halves(5 * 24), dw = Floats(24), db = Floats(24);
  const int workspace = Workspace(kernels::LayerNormBackwardWorkspaceBytes({5, 24}));
  const ops::LayerNormBackward op{
      .rows = 5, .channels = 24, .accumulate = true, .type = DType::kBF16};
  ExpectSame(
      ops::ToOp(op),
      [&] {
        kernels::LayerNormBackward(context_, {5, 24}, D16(dy), D16(x), D16(w), D(statistics), true,
                                   D16(dx), D(dw), D(db), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(DenseOps, LayerNormBackwardOfFrozenWeights_NeedsNoMoreThanDx) {
  const int dy = Floats(5 * 24), x = Floats(5 * 24), w = Floats(24), statistics = Floats(5 * 2);
  const int dx = Floats(5 * 24);
  ExpectSame(ops::ToOp(ops::LayerNormBackward{.rows = 5, .channels = 24, .frozen = true}), [&] {
    kernels::LayerNormBackward<float>(context_, {5, 24}, D(dy), D(x), D(w), D(statistics), false,
                                      D(dx), nullptr, nullptr, nullptr);
  });
}

TEST_F(DenseOps, RmsNormForwardOfOneMoreThanWeights) {
  const int x = Halves(5 * 24), w = Halves(24), y = Halves(5 * 24), rstd = Floats(5);
  const ops::RmsNormForward op{
      .rows = 5, .channels = 24, .epsilon = 1e-5, .plus_one = true, .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::RmsNormForward(context_, {5, 24, true}, 1e-5f, D16(x), D16(w), D16(y), D(rstd));
  });
}

TEST_F(DenseOps, RmsNormBackwardOfFrozenWeights_NeedsNoMoreThanDx) {
  const int dy = Halves(5 * 24), x = Halves(5 * 24), w = Halves(24), rstd = Floats(5);
  const int dx = Halves(5 * 24);
  const ops::RmsNormBackward op{.rows = 5,
                                .channels = 24,
                                .accumulate = true,
                                .plus_one = true,
                                .frozen = true,
                                .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::RmsNormBackward(context_, {5, 24, true}, D16(dy), D16(x), D16(w), D(rstd), true,
                             D16(dx), nullptr, nullptr);
  });
}

constexpr ops::HeadNormShape kHeads{
    .rows = 5, .heads = 3, .kv_heads = 1, .head_size = 8, .plus_one = true, .type = DType::kBF16};
constexpr kernels::HeadNormShape kKernelHeads{5, 3, 1, 8, true};

TEST_F(DenseOps, HeadNormForward) {
  const int qkv = Halves(5 * 40), wq = Halves(8), wk = Halves(8), out = Halves(5 * 40);
  const int rstd = Floats(5 * 4);
  ExpectSame(ops::ToOp(ops::HeadNormForward{kHeads, 1e-6}), [&] {
    kernels::HeadNormForward(context_, kKernelHeads, 1e-6f, D16(qkv), D16(wq), D16(wk), D16(out),
                             D(rstd));
  });
}

TEST_F(DenseOps, HeadNormReplay) {
  const int qkv = Halves(5 * 40), wq = Halves(8), wk = Halves(8), rstd = Floats(5 * 4);
  const int out = Halves(5 * 40);
  ExpectSame(ops::ToOp(ops::HeadNormReplay{kHeads}), [&] {
    kernels::HeadNormReplay(context_, kKernelHeads, D16(qkv), D16(wq), D16(wk), D(rstd), D16(out));
  });
}

TEST_F(DenseOps, HeadNormBackward) {
  const int dout = Halves(5 * 40), qkv = Halves(5 * 40), wq = Halves(8), wk = Halves(8);
  const int rstd = Floats(5 * 4), dqkv = Halves(5 * 40), dwq = Floats(8), dwk = Floats(8);
  const int workspace = Workspace(kernels::HeadNormBackwardWorkspaceBytes(kKernelHeads));
  ExpectSame(
      ops::ToOp(ops::HeadNormBackward{kHeads}),
      [&] {
        kernels::HeadNormBackward(context_, kKernelHeads, D16(dout), D16(qkv), D16(wq), D16(wk),
                                  D(rstd), D16(dqkv), D(dwq), D(dwk), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(DenseOps, AddBias) {
  const int y = Halves(6 * 5), b = Halves(5);
  ExpectSame(ops::ToOp(ops::AddBias{.rows = 6, .width = 5, .type = DType::kBF16}),
             [&] { kernels::AddBias(context_, 6, 5, D16(b), D16(y)); });
}

TEST_F(DenseOps, BiasGradient) {
  const int dy = Floats(6 * 5), db = Floats(5);
  const int workspace = Workspace(kernels::BiasGradientWorkspaceBytes(6, 5));
  ExpectSame(
      ops::ToOp(ops::BiasGradient{.rows = 6, .width = 5}),
      [&] { kernels::BiasGradient(context_, 6, 5, D(dy), D(db), Direct<void>(workspace)); },
      workspace);
}

TEST_F(DenseOps, ActivateGivesTheFunction) {
  const int x = Halves(6 * 5), h = Halves(6 * 5);
  const ops::Activate op{
      .rows = 6, .ffn = 5, .function = ops::Function::kGeluTanh, .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::ActivationForward(context_, 30, kernels::Function::kGeluTanh, D16(x), D16(h));
  });
}

TEST_F(DenseOps, ActivateBackward) {
  const int dh = Floats(6 * 5), x = Floats(6 * 5), dx = Floats(6 * 5);
  const ops::ActivateBackward op{.rows = 6, .ffn = 5, .function = ops::Function::kGelu};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::ActivationBackward(context_, 30, kernels::Function::kGelu, D(dh), D(x), D(dx));
  });
}

TEST_F(DenseOps, GateOfAnotherFunction) {
  const int gate_up = Halves(6 * 10), h = Halves(6 * 5);
  const ops::SwigluForward op{
      .rows = 6, .ffn = 5, .function = ops::Function::kGeluTanh, .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::GatedForward(context_, 6, 5, kernels::Function::kGeluTanh, D16(gate_up), D16(h));
  });
}

TEST_F(DenseOps, SoftcapCaps) {
  const int x = Halves(30);
  ExpectSame(ops::ToOp(ops::Softcap{.elements = 30, .cap = 2, .type = DType::kBF16}),
             [&] { kernels::Softcap(context_, 30, 2, D16(x)); });
}

TEST_F(DenseOps, SumSquaresOfBf16) {
  const int x = Halves(30), out = Bytes(8);
  ExpectSame(ops::ToOp(ops::SumSquares{.count = 30, .type = DType::kBF16}), [&] {
    std::byte workspace[64];
    *Direct<double>(out) = kernels::SumSquares(context_, 30, D16(x), workspace);
  });
}

TEST_F(DenseOps, EmbeddingWithAScale) {
  const int tokens = Ints(9, 11), table = Halves(11 * 8), y = Halves(9 * 8);
  const ops::EmbeddingForward op{
      .rows = 9, .vocab = 11, .channels = 8, .type = DType::kBF16, .scale = 2.5};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::EmbeddingForward(context_, {9, 8, 0, 11, 2.5f}, Direct<int32_t>(tokens), D16(table),
                              D16(y));
  });
}

TEST_F(DenseOps, PositionsAreThoseOfTheRows) {
  const int y = Halves(6 * 8), table = Halves(5 * 8);
  const ops::AddPositions op{
      .rows = 6, .sequence = 3, .channels = 8, .context = 5, .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::AddPositions(context_, {6, 3, 8}, D16(table), nullptr, D16(y));
  });
}

TEST_F(DenseOps, PositionsStartAtTheScalarAndLeavePaddingAlone) {
  const int y = Floats(4 * 8), table = Floats(10 * 8), scalars = Scalars();
  Set(scalars, Scalar::kPosition, 7);  // of the four rows, the last is beyond the table
  const ops::AddPositions op{
      .rows = 4, .sequence = 4, .channels = 8, .context = 10, .use_position = true};
  BoundOp bound;
  ASSERT_TRUE(Bind(ops::ToOp(op), &bound).ok());
  ASSERT_TRUE(bound().ok());
  kernels::AddPositions(context_, {.rows = 3, .sequence = 3, .channels = 8, .start = 7}, D(table),
                        nullptr, D(y));
  EXPECT_EQ(std::memcmp(F(y), D(y), 4 * 8 * 4), 0);
  Set(scalars, Scalar::kPosition, -1);
  EXPECT_TRUE(absl::IsOutOfRange(bound()));
}

TEST_F(DenseOps, PositionsOfDocumentsOutsideTheTableAreRefused) {
  const int dy = Floats(6 * 8), dtable = Floats(3 * 8), positions = Ints(6, 3);
  const ops::PositionsGradient op{
      .rows = 6, .sequence = 6, .channels = 8, .context = 3, .documents = true};
  ExpectSame(ops::ToOp(op), [&] {
    kernels::PositionsGradient(context_, {6, 6, 8}, D(dy), Direct<int32_t>(positions), D(dtable));
  });
  BoundOp bound;
  ASSERT_TRUE(Bind(ops::ToOp(op), &bound).ok());
  for (const int32_t outside : {-1, 3}) {
    Bound<int32_t>(positions)[2] = outside;
    EXPECT_TRUE(absl::IsOutOfRange(bound())) << outside;
  }
}

TEST_F(DenseOps, RopeOfAPartOfEachHead) {
  const int qkv = Halves(6 * 4 * 8), table = Floats(3 * 4);
  const ops::Rope op{.rows = 6,
                     .sequence = 3,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_size = 8,
                     .rotary = 4,
                     .type = DType::kBF16};
  ExpectSame(ops::ToOp(op), [&] {
    const kernels::RopeShape shape{
        .rows = 6, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 8, .rotary = 4};
    kernels::RopeApply(context_, shape, D(table), nullptr, false, D16(qkv));
  });
}

TEST_F(DenseOps, CrossEntropyOfCappedLogits) {
  const int logits = Halves(6 * 11), targets = Ints(6, 11), scalars = Scalars(), loss = Bytes(8);
  const int workspace = Workspace(kernels::CrossEntropyWorkspaceBytes(6));
  Set(scalars, Scalar::kInverseTokens, 0.125);
  const ops::CrossEntropy op{.rows = 6, .vocab = 11, .type = DType::kBF16, .softcap = 30};
  ExpectSame(
      ops::ToOp(op),
      [&] {
        kernels::CrossEntropyForwardBackward(context_, {6, 11, 30}, 0.125f,
                                             Direct<int32_t>(targets), D16(logits),
                                             Direct<double>(loss), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(DenseOps, HeadsOfBf16AreTakenOfTheRanksOwnPart) {
  environment_.group_indices = {{program::Group::kTensor, 3}};
  const int all = Halves(2 * 3 * 4), own = Halves(2 * 4);
  const ops::TakeHeads op{{.blocks = 2,
                           .parts = 3,
                           .elements = 4,
                           .group = program::Group::kTensor,
                           .share = 2,
                           .type = DType::kBF16}};
  ExpectSame(ops::ToOp(op), [&] {
    for (int i = 0; i < 8; ++i) D16(own)[i] = D16(all)[i / 4 * 12 + 4 + i % 4];
  });
}

}  // namespace
}  // namespace strata::worker
