// Every bound op against a direct call of its kernel on the same bytes.
#include "worker/engine/op_binding.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "common/rng.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "ops/op_struct.h"
#include "ops/step.h"
#include "program/ir/scalars.h"

namespace strata::worker {
namespace {

using program::Op;
using program::OpKind;
using program::Scalar;

class FakeHost final : public HostOps {
 public:
  absl::Status LoadBatch(int32_t* tokens, int32_t* targets, int64_t samples,
                         int64_t sequence) override {
    for (int64_t i = 0; i < samples * sequence; ++i) {
      tokens[i] = token;
      targets[i] = target;
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    scalars[static_cast<int>(Scalar::kStep)] = 42;
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int32_t token = 1, target = 2;
};

struct Free {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};

// Operands with contents of their own, in two copies: for the op and for the direct call.
class OpBinding : public testing::Test {
 protected:
  // An operand of `count` f32, or bytes; returns its index.
  int Floats(int64_t count) {
    const int index = Bytes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      const float value = common::NormalAt(7 + index, i);
      F(index)[i] = Direct<float>(index)[i] = value;
    }
    return index;
  }
  int Bytes(int64_t bytes) {
    for (auto* copy : {&bound_, &direct_}) {
      auto* data = static_cast<std::byte*>(
          ::operator new (std::max<int64_t>(bytes, 1), std::align_val_t{64}));
      std::memset(data, 0, bytes);
      copy->emplace_back(data);
    }
    bytes_.push_back(bytes);
    return static_cast<int>(bytes_.size()) - 1;
  }
  int Ints(int64_t count, int32_t below) {
    const int index = Bytes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<int32_t>(common::MixBits(index, i) % below);
      Bound<int32_t>(index)[i] = Direct<int32_t>(index)[i] = value;
    }
    return index;
  }
  int Scalars() { return Bytes(program::kScalarBytes); }
  void Set(int index, Scalar scalar, double value) {
    Bound<double>(index)[static_cast<int>(scalar)] = value;
    Direct<double>(index)[static_cast<int>(scalar)] = value;
  }

  template <typename T>
  T* Bound(int index) {
    return reinterpret_cast<T*>(bound_[index].get());
  }
  template <typename T>
  T* Direct(int index) {
    return reinterpret_cast<T*>(direct_[index].get());
  }
  float* F(int index) { return Bound<float>(index); }
  float* D(int index) { return Direct<float>(index); }

  std::vector<BoundOperand> Operands() {
    std::vector<BoundOperand> operands;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      operands.push_back({.data = bound_[i].get(), .bytes = bytes_[i], .slot = bound_[i].get()});
    }
    return operands;
  }
  absl::Status Bind(const Op& op, BoundOp* bound) {
    absl::StatusOr<BoundOp> result = BindOp(op, Operands(), environment_);
    if (result.ok()) *bound = *std::move(result);
    return result.status();
  }
  // Runs the op, and `direct`; both copies of all operands but the workspace must then agree.
  void ExpectSame(const Op& op, const std::function<void()>& direct, int workspace = -1) {
    BoundOp bound;
    const absl::Status status = Bind(op, &bound);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(bound().ok());
    direct();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (static_cast<int>(i) == workspace) continue;
      EXPECT_EQ(std::memcmp(bound_[i].get(), direct_[i].get(), bytes_[i]), 0) << "operand " << i;
    }
    ExpectRefusals(op, workspace);
  }
  // One operand too few, too small, and a workspace too small are all noticed.
  void ExpectRefusals(const Op& op, int workspace) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<BoundOperand> operands = Operands();
      if (operands[i].bytes == 0) continue;
      operands[i].bytes = static_cast<int>(i) == workspace ? needed_workspace_ - 1 : 3;
      const absl::Status status = BindOp(op, operands, environment_).status();
      EXPECT_EQ(status.code(), static_cast<int>(i) == workspace
                                   ? absl::StatusCode::kFailedPrecondition
                                   : absl::StatusCode::kInvalidArgument)
          << "operand " << i << ": " << status;
    }
    std::vector<BoundOperand> fewer = Operands();
    fewer.pop_back();
    if (workspace < 0) {
      EXPECT_FALSE(BindOp(op, fewer, environment_).ok());
    }
    Op without = op;
    if (without.ints.empty()) return;
    without.ints.clear();
    EXPECT_FALSE(BindOp(without, Operands(), environment_).ok());
  }
  int Workspace(int64_t bytes) {
    needed_workspace_ = bytes;
    return Bytes(bytes);
  }

  FakeHost host_;
  device::ThreadPool pool_{2};
  MatmulPlans plans_{2};
  const kernels::Context context_{.pool = &pool_};
  OpEnvironment environment_{
      .context = context_, .plans = &plans_, .host = &host_, .vocabulary = 11};
  std::vector<std::unique_ptr<std::byte, Free>> bound_, direct_;
  std::vector<int64_t> bytes_;
  int64_t needed_workspace_ = 0;
};

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
    kernels::EmbeddingForward(context_, 9, 8, Direct<int32_t>(tokens), D(table), D(y));
  });
}

TEST_F(OpBinding, EmbeddingBackwardAddsToRows) {
  const int tokens = Ints(9, 11), dy = Floats(9 * 8), dtable = Floats(11 * 8);
  ExpectSame({.kind = OpKind::kEmbeddingBackward, .ints = {9, 11, 8, 0}}, [&] {
    kernels::EmbeddingBackward(context_, 9, 8, Direct<int32_t>(tokens), D(dy), D(dtable));
  });
}

TEST_F(OpBinding, AVocabularyCutOverAGroupIsUnimplemented) {
  Ints(9, 11), Floats(11 * 8), Floats(9 * 8);
  BoundOp bound;
  EXPECT_TRUE(absl::IsUnimplemented(
      Bind({.kind = OpKind::kEmbeddingForward, .ints = {9, 11, 8, 3}}, &bound)));
  EXPECT_TRUE(absl::IsUnimplemented(
      Bind({.kind = OpKind::kCrossEntropyStatistics, .ints = {9, 11, 3}}, &bound)));
}

TEST_F(OpBinding, RmsNormForwardNormalises) {
  const int x = Floats(5 * 24), w = Floats(24), y = Floats(5 * 24), rstd = Floats(5);
  ExpectSame({.kind = OpKind::kRmsNormForward, .ints = {5, 24}, .floats = {1e-5}},
             [&] { kernels::RmsNormForward(context_, 5, 24, 1e-5f, D(x), D(w), D(y), D(rstd)); });
}

TEST_F(OpBinding, AddRmsNormForwardAddsFirst) {
  const int x = Floats(5 * 24), branch = Floats(5 * 24), w = Floats(24), sum = Floats(5 * 24);
  const int y = Floats(5 * 24), rstd = Floats(5);
  ExpectSame({.kind = OpKind::kAddRmsNormForward, .ints = {5, 24}, .floats = {1e-5}}, [&] {
    kernels::AddRmsNormForward(context_, 5, 24, 1e-5f, D(x), D(branch), D(w), D(sum), D(y),
                               D(rstd));
  });
}

TEST_F(OpBinding, RmsNormReplayScalesByTheGivenRstd) {
  const int x = Floats(5 * 24), w = Floats(24), rstd = Floats(5), y = Floats(5 * 24);
  ExpectSame({.kind = OpKind::kRmsNormReplay, .ints = {5, 24}},
             [&] { kernels::RmsNormReplay(context_, 5, 24, D(x), D(w), D(rstd), D(y)); });
}

TEST_F(OpBinding, RmsNormBackwardAccumulatesWhereAsked) {
  const int dy = Floats(5 * 24), x = Floats(5 * 24), w = Floats(24), rstd = Floats(5);
  const int dx = Floats(5 * 24), dw = Floats(24);
  const int workspace = Workspace(kernels::RmsNormBackwardWorkspaceBytes(5, 24));
  ExpectSame(
      {.kind = OpKind::kRmsNormBackward, .ints = {5, 24, 1}},
      [&] {
        kernels::RmsNormBackward(context_, 5, 24, D(dy), D(x), D(w), D(rstd), true, D(dx), D(dw),
                                 Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, RopeTurnsFromPositionZero) {
  const int qkv = Floats(6 * 4 * 8), table = Floats(3 * 8);
  ExpectSame({.kind = OpKind::kRope, .ints = {6, 3, 2, 1, 8, 1, 0}}, [&] {
    kernels::RopeApply(context_,
                       {.rows = 6, .sequence = 3, .heads = 2, .kv_heads = 1, .head_size = 8},
                       D(table), true, D(qkv));
  });
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
      D(table), false, D(qkv));
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
        kernels::AttentionForward(context_, shape, D(qkv), D(out), D(lse), Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, AttentionBackwardGivesTheGradientOfQkv) {
  const kernels::AttentionShape shape{
      .batch = 2, .sequence = 5, .heads = 4, .kv_heads = 2, .head_size = 8};
  const int dout = Floats(10 * 4 * 8), qkv = Floats(10 * 8 * 8), out = Floats(10 * 4 * 8);
  const int lse = Floats(10 * 4), dqkv = Floats(10 * 8 * 8);
  const int workspace = Workspace(kernels::AttentionBackwardWorkspaceBytes(shape, 2));
  ExpectSame(
      {.kind = OpKind::kAttentionBackward, .ints = {2, 5, 4, 2, 8}},
      [&] {
        kernels::AttentionBackward(context_, shape, D(dout), D(qkv), D(out), D(lse), D(dqkv),
                                   Direct<void>(workspace));
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
  ExpectSame({.kind = OpKind::kSwigluForward, .ints = {5, 24}},
             [&] { kernels::SwiGluForward(context_, 5, 24, D(gate_up), D(h)); });
}

TEST_F(OpBinding, SwigluBackwardGivesBothGradients) {
  const int dh = Floats(5 * 24), gate_up = Floats(5 * 48), dgate_up = Floats(5 * 48);
  ExpectSame({.kind = OpKind::kSwigluBackward, .ints = {5, 24}},
             [&] { kernels::SwiGluBackward(context_, 5, 24, D(dh), D(gate_up), D(dgate_up)); });
}

TEST_F(OpBinding, CrossEntropyScalesByTheInverseOfTheTokens) {
  const int logits = Floats(6 * 11), targets = Ints(6, 11), scalars = Scalars(), loss = Bytes(8);
  const int workspace = Workspace(kernels::CrossEntropyWorkspaceBytes(6));
  Set(scalars, Scalar::kInverseTokens, 0.125);
  ExpectSame(
      {.kind = OpKind::kCrossEntropy, .ints = {6, 11}},
      [&] {
        kernels::CrossEntropyForwardBackward(context_, 6, 11, 0.125f, Direct<int32_t>(targets),
                                             D(logits), Direct<double>(loss),
                                             Direct<void>(workspace));
      },
      workspace);
}

TEST_F(OpBinding, CrossEntropyLossLeavesLogits) {
  const int logits = Floats(6 * 11), targets = Ints(6, 11), loss = Bytes(8);
  const int workspace = Workspace(kernels::CrossEntropyWorkspaceBytes(6));
  ExpectSame(
      {.kind = OpKind::kCrossEntropyLoss, .ints = {6, 11}},
      [&] {
        kernels::CrossEntropyForward(context_, 6, 11, Direct<int32_t>(targets), D(logits),
                                     Direct<double>(loss), Direct<void>(workspace));
      },
      workspace);
}

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
  ExpectSame({.kind = OpKind::kAdamW, .ints = {64, 16, 26}, .floats = {0.9, 0.95, 1e-8, 0.1}}, [&] {
    for (const auto& [begin, end, decay] :
         {std::tuple{0, 16, 0.0}, std::tuple{16, 32, 0.1}, std::tuple{32, 64, 0.0}}) {
      kernels::AdamW(context_, end - begin,
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
  ExpectSame({.kind = OpKind::kAdamWFixUp, .ints = {64, 16, 26}, .floats = {0.9, 0.95, 1e-8, 0.1}},
             [&] {
               for (const auto& [begin, end, decay] :
                    {std::tuple{0, 16, 0.0}, std::tuple{16, 32, 0.1}, std::tuple{32, 64, 0.0}}) {
                 kernels::AdamWFixUp(
                     context_, end - begin,
                     {.learning_rate = 0.01, .weight_decay = decay, .step = 5, .grad_factor = 0.25},
                     D(next_m) + begin, D(param) + begin, D(m) + begin, D(v) + begin,
                     D(param_out) + begin, D(m_out) + begin, D(v_out) + begin);
               }
             });
}

TEST_F(OpBinding, AdamWOnShardsGivesTheBitsOfTheWhole) {
  const int param = Floats(96), m = Floats(96), v = Floats(96), gradient = Floats(96);
  const int scalars = Scalars(), param_out = Floats(96), m_out = Floats(96), v_out = Floats(96);
  for (int i = 0; i < 96; ++i) F(v)[i] = std::abs(F(v)[i]);
  Set(scalars, Scalar::kLearningRate, 0.01);
  Set(scalars, Scalar::kClipFactor, 1);
  Op op{.kind = OpKind::kAdamW, .ints = {96, 0, 40, 64, 90}, .floats = {0.9, 0.95, 1e-8, 0.1}};
  BoundOp whole;
  ASSERT_TRUE(Bind(op, &whole).ok());
  ASSERT_TRUE(whole().ok());
  const std::vector<float> expected(F(param_out), F(param_out) + 96);
  std::fill_n(F(param_out), 96, 0.0f);
  op.ints[0] = 48;
  for (int shard = 0; shard < 2; ++shard) {
    std::vector<BoundOperand> operands = Operands();
    for (const int i : {param, m, v, gradient, param_out, m_out, v_out}) {
      operands[i].data += shard * 48 * 4;
      operands[i].offset = shard * 48 * 4;
      operands[i].bytes = 48 * 4;
    }
    operands[param].shard_index = shard;
    const absl::StatusOr<BoundOp> part = BindOp(op, operands, environment_);
    ASSERT_TRUE(part.ok()) << part.status();
    ASSERT_TRUE((*part)().ok());
  }
  EXPECT_EQ(std::vector<float>(F(param_out), F(param_out) + 96), expected);
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
