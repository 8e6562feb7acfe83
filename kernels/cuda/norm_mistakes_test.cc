// Mistakes planted in norms and sums of columns.
#include "kernels/cuda/headnorm.h"
#include "kernels/cuda/layernorm.h"
#include "kernels/cuda/mistakes_testing.h"
#include "kernels/cuda/rmsnorm.h"

namespace strata::kernels::cuda {
namespace {

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
    // More rows than blocks, each of a team of several warps.
    constexpr int64_t kManyRows = 257, kWide = 289, kCount = kManyRows * kWide;
    auto dy = Array<float>(kCount), x = Array<float>(kCount), w = Array<float>(kWide),
         rstd = Array<float>(kManyRows), dw = Array<float>(kWide);
    DeviceArray<float> workspace(RmsNormBackwardWorkspaceBytes(kManyRows, kWide) / sizeof(float),
                                 stream_);
    STRATA_EXPECT_OK(RmsNormBackward(stream_, {kManyRows, kWide}, dy.data(), x.data(), w.data(),
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

TEST_F(RmsNormMistakesTest, ReplayPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "RmsNormReplayKernel", [&] {
    auto x = Array<BFloat16>(3 * 1000), w = Array<BFloat16>(1000);
    auto rstd = Array<float>(3);
    STRATA_EXPECT_OK(RmsNormReplay(stream_, {3, 1000}, x.data(), w.data(), rstd.data(), x.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
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

class LayerNormMistakesTest : public MistakesTest {
 protected:
  void RunForward() {
    auto x = Array<BFloat16>(3 * 1000), w = Array<BFloat16>(1000), b = Array<BFloat16>(1000);
    auto statistics = Array<float>(6);
    STRATA_EXPECT_OK(LayerNormForward(stream_, {3, 1000}, 1e-5f, x.data(), w.data(), b.data(),
                                      x.data(), statistics.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunBackward() {
    // More rows than blocks, each of a team of several warps.
    constexpr LayerNormShape kShape{257, 289};
    constexpr int64_t kCount = kShape.rows * kShape.channels;
    auto dy = Array<float>(kCount), x = Array<float>(kCount), w = Array<float>(kShape.channels),
         statistics = Array<float>(2 * kShape.rows), dw = Array<float>(kShape.channels),
         db = Array<float>(kShape.channels);
    DeviceArray<float> workspace(LayerNormBackwardWorkspaceBytes(kShape) / sizeof(float), stream_);
    STRATA_EXPECT_OK(LayerNormBackward(stream_, kShape, dy.data(), x.data(), w.data(),
                                       statistics.data(), false, dy.data(), dw.data(), db.data(),
                                       workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  // Several teams of a block, a warp each.
  void RunBackwardByWarps() {
    constexpr LayerNormShape kShape{8, 64};
    constexpr int64_t kCount = kShape.rows * kShape.channels;
    auto dy = Array<BFloat16>(kCount), x = Array<BFloat16>(kCount),
         w = Array<BFloat16>(kShape.channels);
    auto statistics = Array<float>(2 * kShape.rows), dw = Array<float>(kShape.channels),
         db = Array<float>(kShape.channels);
    DeviceArray<float> workspace(LayerNormBackwardWorkspaceBytes(kShape) / sizeof(float), stream_);
    STRATA_EXPECT_OK(LayerNormBackward(stream_, kShape, dy.data(), x.data(), w.data(),
                                       statistics.data(), false, dy.data(), dw.data(), db.data(),
                                       workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(LayerNormMistakesTest, ForwardWithoutTheBarrierBeforeTheWarpsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "LayerNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(LayerNormMistakesTest, ForwardWithoutTheBarrierBetweenMeanAndVarianceIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "LayerNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(LayerNormMistakesTest, ForwardPastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "LayerNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(LayerNormMistakesTest, ReplayPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "LayerNormReplayKernel", [&] {
    auto x = Array<BFloat16>(3 * 1000), w = Array<BFloat16>(1000), b = Array<BFloat16>(1000);
    auto statistics = Array<float>(6);
    STRATA_EXPECT_OK(LayerNormReplay(stream_, {3, 1000}, x.data(), w.data(), b.data(),
                                     statistics.data(), x.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(LayerNormMistakesTest, BackwardWithoutTheBarrierBeforeTheWarpsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "LayerNormBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(LayerNormMistakesTest, BackwardWithoutTheBarrierBeforeTheNextSumsIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "LayerNormBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(LayerNormMistakesTest, BackwardWithoutTheBarrierBeforeTheTeamsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "LayerNormBackwardKernel",
        [&] { RunBackwardByWarps(); });
}

TEST_F(LayerNormMistakesTest, BackwardByLanesOutsideTheirMaskIsAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "LayerNormBackwardKernel",
        [&] { RunBackwardByWarps(); });
}

TEST_F(LayerNormMistakesTest, BackwardPastTheLastRowIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "LayerNormBackwardKernel",
        [&] { RunBackward(); });
}

class HeadNormMistakesTest : public MistakesTest {
 protected:
  static constexpr HeadNormShape kShape{5, 2, 1, 64};

  void RunForward() {
    auto qkv = Array<BFloat16>(kShape.rows * kShape.width()), wq = Array<BFloat16>(64),
         wk = Array<BFloat16>(64);
    auto rstd = Array<float>(kShape.rows * kShape.norms());
    STRATA_EXPECT_OK(HeadNormForward(stream_, kShape, 1e-5f, qkv.data(), wq.data(), wk.data(),
                                     qkv.data(), rstd.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunBackward() {
    auto dout = Array<float>(kShape.rows * kShape.width()),
         qkv = Array<float>(kShape.rows * kShape.width()), wq = Array<float>(64),
         wk = Array<float>(64), rstd = Array<float>(kShape.rows * kShape.norms()),
         dwq = Array<float>(64), dwk = Array<float>(64);
    DeviceArray<float> workspace(HeadNormBackwardWorkspaceBytes(kShape) / sizeof(float), stream_);
    STRATA_EXPECT_OK(HeadNormBackward(stream_, kShape, dout.data(), qkv.data(), wq.data(),
                                      wk.data(), rstd.data(), dout.data(), dwq.data(), dwk.data(),
                                      workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(HeadNormMistakesTest, ForwardByLanesOutsideTheirMaskIsAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "HeadNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(HeadNormMistakesTest, ForwardPastTheLastHeadIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "HeadNormForwardKernel",
        [&] { RunForward(); });
}

TEST_F(HeadNormMistakesTest, BackwardByLanesOutsideTheirMaskIsAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "HeadNormBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(HeadNormMistakesTest, BackwardPastTheLastHeadIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "HeadNormBackwardKernel",
        [&] { RunBackward(); });
}

TEST_F(HeadNormMistakesTest, BackwardWithoutTheBarrierBeforeTheTeamsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "HeadNormBackwardKernel",
        [&] { RunBackward(); });
}

}  // namespace
}  // namespace strata::kernels::cuda
