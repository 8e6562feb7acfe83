// Mistakes planted in kernels that take elements one by one.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/decided_copy.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/mistakes_testing.h"
#include "kernels/cuda/move_blocks.h"
#include "kernels/cuda/positions.h"

namespace strata::kernels::cuda {
namespace {

class ElementwiseMistakesTest : public MistakesTest {
 protected:
  void RunAddInOrder(const Floats& values) {
    DeviceArray<float> from(values, stream_);
    DeviceArray<double> sum(Doubles{0}, stream_);
    STRATA_EXPECT_OK(AddInOrder(stream_, 700, from.data(), sum.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  // One by one, and in any order.
  const Floats tiled_ = Floats(700, 0.001F), summed_ = Floats(700, 0.25F);
};

TEST_F(ElementwiseMistakesTest, AddPastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "MapKernel", [&] {
    auto src = Array<BFloat16>(1003), dst = Array<BFloat16>(1003);
    STRATA_EXPECT_OK(Add<BFloat16>(stream_, 1003, src.data(), dst.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(ElementwiseMistakesTest, SumInOrderWithoutTheBarrierBeforeATileIsReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "AddInOrderKernel",
        [&] { RunAddInOrder(tiled_); });
}

TEST_F(ElementwiseMistakesTest, SumInOrderWithoutTheBarrierBeforeTheNextTileIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "AddInOrderKernel",
        [&] { RunAddInOrder(tiled_); });
}

TEST_F(ElementwiseMistakesTest, SumInAnyOrderWithoutTheBarrierBeforeWarpsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "AddInOrderKernel",
        [&] { RunAddInOrder(summed_); });
}

TEST_F(ElementwiseMistakesTest, SumInOrderPastTheLastValueIsOutOfBounds) {
  for (const Floats& values : {tiled_, summed_}) {
    Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AddInOrderKernel",
          [&] { RunAddInOrder(values); });
  }
}

class DecidedCopyMistakesTest : public MistakesTest {};

TEST_F(DecidedCopyMistakesTest, PastTheLastByteIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "DecidedCopyKernel", [&] {
    auto decides = Array<float>(2), from = Array<float>(1000), to = Array<float>(1000);
    const auto* const scalar = reinterpret_cast<const double*>(decides.data());
    STRATA_EXPECT_OK(DecidedCopy(stream_, scalar, false, 4000, from.data(), to.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class BiasMistakesTest : public MistakesTest {};

TEST_F(BiasMistakesTest, PastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AddBiasKernel", [&] {
    auto y = Array<BFloat16>(3 * 1000), b = Array<BFloat16>(1000);
    STRATA_EXPECT_OK(AddBias<BFloat16>(stream_, 3, 1000, b.data(), y.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class ActivationMistakesTest : public MistakesTest {};

TEST_F(ActivationMistakesTest, ForwardPastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "ActivationForwardKernel", [&] {
    auto x = Array<BFloat16>(1003);
    STRATA_EXPECT_OK(
        ActivationForward<BFloat16>(stream_, 1003, Function::kGelu, x.data(), x.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(ActivationMistakesTest, BackwardPastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "ActivationBackwardKernel", [&] {
    auto dh = Array<float>(1003), x = Array<float>(1003);
    STRATA_EXPECT_OK(ActivationBackward<float>(stream_, 1003, Function::kGeluTanh, dh.data(),
                                               x.data(), x.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(ActivationMistakesTest, GatePastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "GatedForwardKernel", [&] {
    auto gate_up = Array<BFloat16>(3 * 2 * 1000), h = Array<BFloat16>(3 * 1000);
    STRATA_EXPECT_OK(GatedForward(stream_, 3, 1000, Function::kSilu, gate_up.data(), h.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(ActivationMistakesTest, GatesGradientPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "GatedBackwardKernel", [&] {
    auto gate_up = Array<float>(3 * 2 * 77), dh = Array<float>(3 * 77);
    STRATA_EXPECT_OK(
        GatedBackward(stream_, 3, 77, Function::kSilu, dh.data(), gate_up.data(), gate_up.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class PositionsMistakesTest : public MistakesTest {
 protected:
  static constexpr PositionsShape kShape{.rows = 6, .sequence = 3, .channels = 24, .context = 3};
};

TEST_F(PositionsMistakesTest, PastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AddPositionsKernel", [&] {
    auto table = Array<float>(3 * 24), y = Array<float>(6 * 24);
    STRATA_EXPECT_OK(AddPositions<float>(stream_, kShape, table.data(), nullptr, y.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(PositionsMistakesTest, GradientPastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "PositionsGradientKernel", [&] {
    auto dy = Array<float>(6 * 24), dtable = Array<float>(3 * 24);
    STRATA_EXPECT_OK(PositionsGradient<float>(stream_, kShape, dy.data(), nullptr, dtable.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class MoveBlocksMistakesTest : public MistakesTest {};

TEST_F(MoveBlocksMistakesTest, PastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "MoveBlocksKernel", [&] {
    auto from = Array<BFloat16>(6 * 24), to = Array<BFloat16>(6 * 24);
    STRATA_EXPECT_OK(
        MoveBlocks<BFloat16>(stream_, {2, 3, 24, 72, 24, 72, 24}, true, from.data(), to.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
