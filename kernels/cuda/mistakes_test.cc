// Mistakes planted in the kernels: the stand-in's checker finds each, in every order of threads.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/mistakes_testing.h"
#include "kernels/cuda/rope.h"

namespace strata::kernels::cuda {
namespace {

using ::testing::HasSubstr;

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
    auto logits = Array<BFloat16>(3 * 2000);
    auto losses = Array<float>(3);
    DeviceArray<int32_t> targets(std::vector<int32_t>{1990, -1, 70}, stream_);
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(stream_, {3, 2000}, 1.f, targets.data(),
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

TEST_F(CrossEntropyMistakesTest, RowsThatDoNotTakeTurnsWithThePlaceOfWarpsValuesAreARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "CrossEntropyKernel",
        [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, ARowReadBeforeItHasArrivedIsAnAsyncCopy) {
  Finds(Mistake::kNoCopyWait, FindingKind::kAsyncCopy, "CrossEntropyKernel", [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, LanesOutsideTheirMaskAreAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "CrossEntropyKernel", [&] { RunLoss(); });
}

TEST_F(CrossEntropyMistakesTest, PastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "CrossEntropyKernel", [&] { RunLoss(); });
}

class CrossEntropyPartsMistakesTest : public MistakesTest {
 protected:
  void RunParts() {
    auto logits = Array<BFloat16>(2 * 1000);
    auto statistics = Array<float>(2 * 3);
    DeviceArray<double> scale(Doubles{1}, stream_), loss(Doubles{0}, stream_);
    DeviceArray<int32_t> targets(std::vector<int32_t>{990, 70}, stream_);
    const VocabularyPart part{2, 1000};
    STRATA_EXPECT_OK(CrossEntropyStatistics<BFloat16>(stream_, part, targets.data(), logits.data(),
                                                      statistics.data()));
    STRATA_EXPECT_OK(CrossEntropyFinish(stream_, part, 1, scale.data(), targets.data(),
                                        statistics.data(), logits.data(), loss.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(CrossEntropyPartsMistakesTest, StatisticsWithoutTheBarrierBeforeValuesAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "CrossEntropyStatisticsKernel",
        [&] { RunParts(); });
}

TEST_F(CrossEntropyPartsMistakesTest, StatisticsPastTheLastRowAreOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "CrossEntropyStatisticsKernel",
        [&] { RunParts(); });
}

TEST_F(CrossEntropyPartsMistakesTest, FinishPastTheLastPartIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "CrossEntropyFinishKernel",
        [&] { RunParts(); });
}

TEST_F(CrossEntropyPartsMistakesTest, LossWithoutTheBarrierBeforeATileIsReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "CrossEntropyPartsLossKernel",
        [&] { RunParts(); });
}

TEST_F(CrossEntropyPartsMistakesTest, LossPastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "CrossEntropyPartsLossKernel",
        [&] { RunParts(); });
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
    constexpr int kRows = 4200;  // two tiles; most tokens are others' than the table's
    std::vector<int32_t> which(kRows, 3);
    for (int i = 0; i < kRows; i += 40) which[i] = i % 3;
    DeviceArray<int32_t> tokens(which, stream_);
    auto dy = Array<BFloat16>(kRows * 24);
    auto dtable = Array<float>(3 * 24);
    STRATA_EXPECT_OK(
        EmbeddingBackward(stream_, {kRows, 24, 0, 3}, tokens.data(), dy.data(), dtable.data()));
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
  EXPECT_THAT(GatedForward(stream_, 1, 8, Function::kSilu, gate_up.data(), h.data()).ToString(),
              HasSubstr("gate: "));
  STRATA_EXPECT_OK(GatedForward(stream_, 1, 8, Function::kSilu, gate_up.data(), h.data()));
}

}  // namespace
}  // namespace strata::kernels::cuda
