// The same of what surrounds the model in a step: flat ranges, batch, last word, update.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "ops/elementwise.h"
#include "ops/step.h"
#include "worker/engine/binding/binding_testing.h"

namespace strata::worker {
namespace {

using program::Op;
using program::OpKind;
using program::Scalar;

TEST_F(OpBinding, AddAddsTheSecondToTheFirst) {
  const int dst = Floats(100), src = Floats(100);
  ExpectSame({.kind = OpKind::kAdd, .ints = {100}},
             [&] { kernels::Add(context_, 100, D(src), D(dst)); });
}

TEST_F(OpBinding, CopyMovesTheSecondToTheFirstAlsoInOddSizes) {
  const int dst = Floats(10), src = Floats(10);
  ExpectSame({.kind = OpKind::kCopy, .ints = {37}},
             [&] { std::memcpy(Direct<void>(dst), Direct<void>(src), 37); });
  ExpectSame({.kind = OpKind::kCopy, .ints = {40}},
             [&] { std::memcpy(Direct<void>(dst), Direct<void>(src), 40); });
}

TEST_F(OpBinding, ZeroZeroesAlsoOddSizes) {
  const int dst = Floats(10);
  ExpectSame({.kind = OpKind::kZero, .ints = {37}}, [&] { std::memset(Direct<void>(dst), 0, 37); });
  ExpectSame({.kind = OpKind::kZero, .ints = {40}}, [&] { std::memset(Direct<void>(dst), 0, 40); });
}

TEST_F(OpBinding, ScaleMultipliesInPlace) {
  const int dst = Floats(100);
  ExpectSame(ops::ToOp(ops::Scale{.elements = 100, .factor = 0.75}),
             [&] { kernels::Scale(context_, 100, 0.75f, D(dst)); });
}

TEST_F(OpBinding, SumSquaresTakesLongRangesInPiecesOfAMebielement) {
  const int64_t piece = 1 << 20, count = piece + 5;
  const int x = Floats(count), out = Bytes(8);
  std::vector<std::byte> workspace(kernels::SumSquaresWorkspaceBytes(piece) + 64);
  ExpectSame({.kind = OpKind::kSumSquares, .ints = {count}}, [&] {
    const double first = kernels::SumSquares(context_, piece, D(x), workspace.data());
    *Direct<double>(out) = first + kernels::SumSquares(context_, 5, D(x) + piece, workspace.data());
  });
  EXPECT_NEAR(*Bound<double>(out), static_cast<double>(count), count * 0.01);
}

TEST_F(OpBinding, FinishStepReadsLossesAndNormsAndWritesScalars) {
  const int losses = Bytes(2 * 8), read = Scalars(), written = Scalars(), norms = Bytes(2 * 8);
  const double values[] = {3, 5, 9, 16};
  std::copy_n(values, 2, Bound<double>(losses));
  std::copy_n(values + 2, 2, Bound<double>(norms));
  Set(read, Scalar::kInverseTokens, 0.5);
  BoundOp bound;
  ASSERT_TRUE(Bind(ops::ToOp(ops::FinishStep{.rows = 2, .sets = 1}), &bound).ok());
  ASSERT_TRUE(bound().ok());
  EXPECT_EQ(Bound<double>(written)[static_cast<int>(Scalar::kLoss)], 4.0);
  EXPECT_EQ(Bound<double>(written)[static_cast<int>(Scalar::kGradientNorm)], 5.0);
}

TEST_F(OpBinding, AdamWDecaysTheRangesItIsTold) {
  // Elements [16, 26) decay, and the padding behind them.
  const int param = Floats(64), m = Floats(64), v = Floats(64), gradient = Floats(64);
  const int scalars = Scalars(), param_out = Floats(64), m_out = Floats(64), v_out = Floats(64);
  for (int i = 0; i < 64; ++i) F(v)[i] = D(v)[i] = std::abs(F(v)[i]);
  Set(scalars, Scalar::kLearningRate, 0.01);
  Set(scalars, Scalar::kApplied, 4);
  Set(scalars, Scalar::kClipFactor, 0.5);
  ExpectSame(
      {.kind = OpKind::kAdamW, .ints = {64, 0, 64, 16, 26}, .floats = {0.9, 0.95, 1e-8, 0.1}}, [&] {
        for (const auto& [begin, end, decay] :
             {std::tuple{0, 16, 0.0}, std::tuple{16, 32, 0.1}, std::tuple{32, 64, 0.0}}) {
          kernels::AdamW(
              context_, end - begin,
              {.learning_rate = 0.01, .weight_decay = decay, .step = 5, .grad_factor = 0.5},
              D(gradient) + begin, D(param) + begin, D(m) + begin, D(v) + begin,
              D(param_out) + begin, D(m_out) + begin, D(v_out) + begin);
        }
      });
}

TEST_F(OpBinding, AdamWFixUpClipsTheGradientThatTheMomentsTell) {
  const int param = Floats(64), m = Floats(64), v = Floats(64), next_m = Floats(64);
  const int scalars = Scalars(), param_out = Floats(64), m_out = Floats(64), v_out = Floats(64);
  for (int i = 0; i < 64; ++i) F(v)[i] = D(v)[i] = std::abs(F(v)[i]);
  Set(scalars, Scalar::kLearningRate, 0.01);
  Set(scalars, Scalar::kApplied, 4);
  Set(scalars, Scalar::kClipFactor, 0.25);
  ExpectSame(
      {.kind = OpKind::kAdamWFixUp, .ints = {64, 0, 64, 16, 26}, .floats = {0.9, 0.95, 1e-8, 0.1}},
      [&] {
        for (const auto& [begin, end, decay] :
             {std::tuple{0, 16, 0.0}, std::tuple{16, 32, 0.1}, std::tuple{32, 64, 0.0}}) {
          kernels::AdamWFixUp(
              context_, end - begin,
              {.learning_rate = 0.01, .weight_decay = decay, .step = 5, .grad_factor = 0.25},
              D(next_m) + begin, D(param) + begin, D(m) + begin, D(v) + begin, D(param_out) + begin,
              D(m_out) + begin, D(v_out) + begin);
        }
      });
}

TEST_F(OpBinding, AdamWOnRangesOfShardsGivesTheBitsOfTheWhole) {
  const int param = Floats(96), m = Floats(96), v = Floats(96), gradient = Floats(96);
  const int scalars = Scalars(), param_out = Floats(96), m_out = Floats(96), v_out = Floats(96);
  for (int i = 0; i < 96; ++i) F(v)[i] = std::abs(F(v)[i]);
  Set(scalars, Scalar::kLearningRate, 0.01);
  Set(scalars, Scalar::kClipFactor, 1);
  Op op{
      .kind = OpKind::kAdamW, .ints = {96, 0, 96, 0, 40, 64, 90}, .floats = {0.9, 0.95, 1e-8, 0.1}};
  BoundOp whole;
  ASSERT_TRUE(Bind(op, &whole).ok());
  ASSERT_TRUE(whole().ok());
  const std::vector<float> expected(F(param_out), F(param_out) + 96);
  std::fill_n(F(param_out), 96, 0.0f);
  // Each rank's part in two ranges.
  for (const int first : {0, 16}) {
    const int count = first == 0 ? 16 : 32;
    op.ints[0] = count;
    op.ints[1] = first;
    op.ints[2] = 48;
    for (int shard = 0; shard < 2; ++shard) {
      std::vector<BoundOperand> operands = Operands();
      for (const int i : {param, m, v, gradient, param_out, m_out, v_out}) {
        operands[i].offset = (shard * 48 + first) * 4;
        operands[i].data += operands[i].offset;
        operands[i].bytes = count * 4;
      }
      operands[param].shard_index = shard;
      const absl::StatusOr<BoundOp> part = BindOp(op, operands, environment_);
      ASSERT_TRUE(part.ok()) << part.status();
      ASSERT_TRUE((*part)().ok());
    }
  }
  EXPECT_EQ(std::vector<float>(F(param_out), F(param_out) + 96), expected);
}

TEST_F(OpBinding, LoadScalarsGivesAClipFactorOfOneWhereTheOperandReachesIt) {
  const int scalars = Scalars();
  for (const bool reaches : {false, true}) {
    Set(scalars, Scalar::kClipFactor, 0.25);
    Set(scalars, Scalar::kApply, 7);
    std::vector<BoundOperand> operands = Operands();
    operands[scalars].bytes = program::ScalarOffset(reaches ? Scalar::kApply : Scalar::kClipFactor);
    const absl::StatusOr<BoundOp> load =
        BindOp({.kind = OpKind::kLoadScalars}, operands, environment_);
    ASSERT_TRUE(load.ok()) << load.status();
    ASSERT_TRUE((*load)().ok());
    const double* values = Bound<double>(scalars);
    EXPECT_EQ(values[static_cast<int>(Scalar::kStep)], 42);
    EXPECT_EQ(values[static_cast<int>(Scalar::kClipFactor)], reaches ? 1 : 0.25);
    EXPECT_EQ(values[static_cast<int>(Scalar::kApply)], 7);
  }
}

TEST_F(OpBinding, LoadBatchRefusesTokensOutsideTheVocabulary) {
  Bytes(6 * 4), Bytes(6 * 4);
  BoundOp bound;
  ASSERT_TRUE(Bind({.kind = OpKind::kLoadBatch, .ints = {2, 3}}, &bound).ok());
  EXPECT_TRUE(bound().ok());
  host_.target = -1;
  EXPECT_TRUE(bound().ok());
  for (const auto& [token, target] : {std::pair{11, 0}, {-1, 0}, {0, 11}}) {
    host_.token = token;
    host_.target = target;
    EXPECT_TRUE(absl::IsInvalidArgument(bound())) << token << " " << target;
  }
}

TEST_F(OpBinding, LoadBatchOfDocumentsHandsOverPositionsAndRefusesNegativeOnes) {
  Bytes(6 * 4), Bytes(6 * 4);
  const int positions = Bytes(6 * 4);
  BoundOp bound;
  ASSERT_TRUE(Bind({.kind = OpKind::kLoadBatch, .ints = {2, 3, 1}}, &bound).ok());
  host_.position = 2;
  EXPECT_TRUE(bound().ok());
  EXPECT_EQ(Bound<int32_t>(positions)[5], 2);
  host_.position = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(bound()));
}

TEST_F(OpBinding, LoadScalarsHandsOverTheBlock) {
  const int scalars = Scalars();
  BoundOp bound;
  ASSERT_TRUE(Bind({.kind = OpKind::kLoadScalars}, &bound).ok());
  ASSERT_TRUE(bound().ok());
  EXPECT_EQ(Bound<double>(scalars)[static_cast<int>(Scalar::kStep)], 42);
}

TEST_F(OpBinding, HostOpsAreRefusedWhereThereIsNoHost) {
  Scalars();
  environment_.host = nullptr;
  BoundOp bound;
  EXPECT_TRUE(absl::IsUnimplemented(Bind({.kind = OpKind::kLoadScalars}, &bound)));
}

}  // namespace
}  // namespace strata::worker
