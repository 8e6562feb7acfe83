// Mistakes planted in kernels that take elements one by one.
#include "kernels/cuda/bias.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/mistakes_testing.h"

namespace strata::kernels::cuda {
namespace {

class ElementwiseMistakesTest : public MistakesTest {
 protected:
  void RunSumSquares() {
    auto x = Array<BFloat16>(5001);
    DeviceArray<double> sum(1, stream_),
        workspace(SumSquaresWorkspaceBytes(5001) / sizeof(double), stream_);
    STRATA_EXPECT_OK(SumSquares<BFloat16>(stream_, 5001, x.data(), sum.data(), workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunAddInOrder() {
    auto values = Array<float>(700);
    DeviceArray<double> sum(Doubles{0}, stream_);
    STRATA_EXPECT_OK(AddInOrder(stream_, 700, values.data(), sum.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(ElementwiseMistakesTest, AddPastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "MapKernel", [&] {
    auto src = Array<BFloat16>(1003), dst = Array<BFloat16>(1003);
    STRATA_EXPECT_OK(Add<BFloat16>(stream_, 1003, src.data(), dst.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

TEST_F(ElementwiseMistakesTest, SquaresPastTheLastElementAreOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SumSquaresKernel", [&] { RunSumSquares(); });
}

TEST_F(ElementwiseMistakesTest, SquaresWithoutTheBarrierBeforeTheWarpsSumsAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "SumSquaresKernel",
        [&] { RunSumSquares(); });
}

TEST_F(ElementwiseMistakesTest, SumsWithoutTheBarrierBeforeTheWarpsSumsAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "SumOfSumsKernel",
        [&] { RunSumSquares(); });
}

TEST_F(ElementwiseMistakesTest, SumInOrderWithoutTheBarrierBeforeATileIsReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "AddInOrderKernel",
        [&] { RunAddInOrder(); });
}

TEST_F(ElementwiseMistakesTest, SumInOrderWithoutTheBarrierBeforeTheNextTileIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "AddInOrderKernel",
        [&] { RunAddInOrder(); });
}

TEST_F(ElementwiseMistakesTest, SumInOrderPastTheLastValueIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AddInOrderKernel", [&] { RunAddInOrder(); });
}

class BiasMistakesTest : public MistakesTest {};

TEST_F(BiasMistakesTest, PastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AddBiasKernel", [&] {
    auto y = Array<BFloat16>(3 * 1000), b = Array<BFloat16>(1000);
    STRATA_EXPECT_OK(AddBias<BFloat16>(stream_, 3, 1000, b.data(), y.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
