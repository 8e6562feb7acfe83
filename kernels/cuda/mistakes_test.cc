// Mistakes planted in the kernels: the stand-in's checker finds each, in every order of threads.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/mistakes_testing.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/rope.h"

namespace strata::kernels::cuda {
namespace {

using ::testing::HasSubstr;

class RmsNormMistakesTest : public MistakesTest {
 protected:
  static constexpr int64_t kRows = 3, kChannels = 1000;

  void RunForward() {
    auto x = Array<BFloat16>(kRows * kChannels), branch = Array<BFloat16>(kRows * kChannels),
         w = Array<BFloat16>(kChannels), y = Array<BFloat16>(kRows * kChannels);
    auto rstd = Array<float>(kRows);
    STRATA_EXPECT_OK(AddRmsNormForward(stream_, {kRows, kChannels}, 1e-5f, x.data(), branch.data(),
                                       w.data(), x.data(), y.data(), rstd.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunBackward() {
    constexpr int64_t kManyRows = 260;
    auto dy = Array<float>(kManyRows * 33), x = Array<float>(kManyRows * 33), w = Array<float>(33),
         rstd = Array<float>(kManyRows), dw = Array<float>(33);
    DeviceArray<float> workspace(RmsNormBackwardWorkspaceBytes(kManyRows, 33) / sizeof(float),
                                 stream_);
    STRATA_EXPECT_OK(RmsNormBackward(stream_, {kManyRows, 33}, dy.data(), x.data(), w.data(),
                                     rstd.data(), false, dy.data(), dw.data(), workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(RmsNormMistakesTest, ForwardWithoutTheBarrierBeforeTheWarpsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "RmsNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(RmsNormMistakesTest, ForwardPastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "RmsNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(RmsNormMistakesTest, BackwardWithoutTheBarrierBeforeTheNextRowsSumsIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "RmsNormBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(RmsNormMistakesTest, ColumnSumsWithoutTheBarrierBeforeTheStripsAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "ColumnSumsKernel",
        [&] { RunBackward(); });
}

TEST_F(RmsNormMistakesTest, ColumnSumsPastTheLastColumnAreOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "ColumnSumsKernel", [&] { RunBackward(); });
}

class SwigluMistakesTest : public MistakesTest {};

TEST_F(SwigluMistakesTest, ForwardPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SwigluForwardKernel", [&] {
    auto gate_up = Array<BFloat16>(3 * 2 * 1000), h = Array<BFloat16>(3 * 1000);
    STRATA_EXPECT_OK(SwigluForward(stream_, 3, 1000, gate_up.data(), h.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(SwigluMistakesTest, BackwardPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SwigluBackwardKernel", [&] {
    auto gate_up = Array<float>(3 * 2 * 77), dh = Array<float>(3 * 77);
    STRATA_EXPECT_OK(SwigluBackward(stream_, 3, 77, dh.data(), gate_up.data(), gate_up.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class RopeMistakesTest : public MistakesTest {};

TEST_F(RopeMistakesTest, PastTheLastHeadIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "RopeKernel", [&] {
    auto qkv = Array<BFloat16>(3 * 4 * 16);
    auto table = Array<float>(3 * 16);
    STRATA_EXPECT_OK(
        RopeApply(stream_, {3, 3, 2, 1, 16}, table.data(), nullptr, false, qkv.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class CrossEntropyMistakesTest : public MistakesTest {
 protected:
  void RunLoss() {
    auto logits = Array<BFloat16>(2 * 2000);
    auto losses = Array<float>(2);
    DeviceArray<int32_t> targets(std::vector<int32_t>{1990, 70}, stream_);
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(stream_, {2, 2000}, 1.f, targets.data(),
                                                 logits.data(), losses.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(CrossEntropyMistakesTest, ALogitOverwrittenBeforeItsReadIsARace) {
  Finds(Mistake::kInPlaceTooEarly, FindingKind::kRace, "CrossEntropyKernel", [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, WithoutTheBarrierBeforeTheWarpsValuesAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "CrossEntropyKernel",
        [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, WithoutTheBarrierBetweenMaximumAndSumIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "CrossEntropyKernel",
        [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, LanesOutsideTheirMaskAreAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "CrossEntropyKernel", [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, PastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "CrossEntropyKernel", [&] { RunLoss(); });
}

class EmbeddingMistakesTest : public MistakesTest {
 protected:
  void RunForward() {
    DeviceArray<int32_t> tokens(std::vector<int32_t>{1, 0, 1}, stream_);
    auto table = Array<float>(2 * 24), y = Array<float>(3 * 24);
    STRATA_EXPECT_OK(
        EmbeddingForward(stream_, {3, 24, 0, 2}, tokens.data(), table.data(), y.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunBackward() {
    std::vector<int32_t> which(600);
    for (int i = 0; i < 600; ++i) which[i] = i % 3;
    DeviceArray<int32_t> tokens(which, stream_);
    auto dy = Array<BFloat16>(600 * 24);
    auto dtable = Array<float>(3 * 24);
    STRATA_EXPECT_OK(
        EmbeddingBackward(stream_, {600, 24, 0, 3}, tokens.data(), dy.data(), dtable.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(EmbeddingMistakesTest, ForwardPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "EmbeddingForwardKernel",
        [&] { RunForward(); });
}

TEST_F(EmbeddingMistakesTest, BackwardPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "EmbeddingBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(EmbeddingMistakesTest, BackwardWithoutTheBarrierBeforeATilesRowsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "EmbeddingBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(EmbeddingMistakesTest, BackwardWithoutTheBarrierBeforeTheNextTileIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "EmbeddingBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(MistakesTest, ALaunchThatFailsIsAStatusWithTheKernelsName) {
  standin::Reset();
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  PlantMistake(Mistake::kNone);
  auto gate_up = Array<float>(2 * 8), h = Array<float>(8);
  standin::FailCall("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
  EXPECT_THAT(SwigluForward(stream_, 1, 8, gate_up.data(), h.data()).ToString(),
              HasSubstr("SwiGLU: "));
  STRATA_EXPECT_OK(SwigluForward(stream_, 1, 8, gate_up.data(), h.data()));
}

}  // namespace
}  // namespace strata::kernels::cuda
