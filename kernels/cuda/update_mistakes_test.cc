// Mistakes planted in what ends a step and in what reads and writes formats of numbers.
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/dequantise.h"
#include "kernels/cuda/mistakes_testing.h"
#include "kernels/cuda/sgd.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/update_testing.h"
#include "kernels/nf4.h"

namespace strata::kernels::cuda {
namespace {

class UpdateMistakesTest : public MistakesTest {
 protected:
  void RunAdamW(const UpdateFormats& formats, int64_t count) {
    UpdateBytes numbers(formats, count);
    ScalarsOnDevice scalars(stream_, 0, 0.01, 1);
    numbers.OnTheDevice(stream_, true, [&](const NumbersOfUpdate& of) {
      STRATA_EXPECT_OK(AdamW(stream_, {}, scalars.Get(), {{0, count, true}}, of));
    });
  }
  void RunAdamWOfF32() { RunAdamW({.moments = {MomentFormat::kF32, MomentFormat::kF32}}, 1000); }
  void RunAdamWInBlocks() {
    RunAdamW({NumberType::kBF16,
              NumberType::kBF16,
              MasterFormat::kRemainder,
              {MomentFormat::kSigned8, MomentFormat::kUnsigned8}},
             1024);
  }
  void RunSgd() {
    UpdateBytes numbers({.moments = {MomentFormat::kBF16}}, 1003);
    ScalarsOnDevice scalars(stream_, 0, 0.01, 1);
    numbers.OnTheDevice(stream_, false, [&](const NumbersOfUpdate& of) {
      STRATA_EXPECT_OK(Sgd(stream_, {}, scalars.Get(), {{0, 1003, true}}, of));
    });
  }
};

TEST_F(UpdateMistakesTest, PastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "UpdateKernel", [&] { RunAdamWOfF32(); });
}

TEST_F(UpdateMistakesTest, SgdPastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SgdRule", [&] { RunSgd(); });
}

TEST_F(UpdateMistakesTest, WithoutTheBarrierBeforeRatesAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "UpdateKernel",
        [&] { RunAdamWOfF32(); });
}

TEST_F(UpdateMistakesTest, WithoutTheBarrierBeforeTablesAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "UpdateKernel",
        [&] { RunAdamWInBlocks(); });
}

TEST_F(UpdateMistakesTest, AScaleOverwrittenBeforeEachLaneHasReadItIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "UpdateKernel",
        [&] { RunAdamWInBlocks(); });
}

TEST_F(UpdateMistakesTest, ScalesByLanesOutsideTheirMaskAreAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "UpdateKernel", [&] { RunAdamWInBlocks(); });
}

class ConvertMistakesTest : public MistakesTest {};

TEST_F(ConvertMistakesTest, PastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "ConvertKernel", [&] {
    auto src = Array<float>(1000);
    auto dst = Array<Float16>(1000);
    STRATA_EXPECT_OK(Convert(stream_, 1000, src.data(), dst.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

class StepMistakesTest : public MistakesTest {
 protected:
  void RunSquares() {
    auto x = Array<Float16>(9000);
    DeviceArray<double> out(1, stream_), workspace(kSumSquaresWorkspaceBytes / 8, stream_);
    STRATA_EXPECT_OK(SumSquares(stream_, 9000, x.data(), out.data(), workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
  void RunFinish() {
    constexpr int64_t kRows = 64, kSets = 40;
    DeviceArray<double> losses(Doubles(kRows, 1), stream_),
        norms(Doubles(kRows * kSets, 1), stream_), block(Doubles(6, 1), stream_);
    double* const at = block.data();
    STRATA_EXPECT_OK(FinishStep(stream_, {.rows = kRows, .sets = kSets, .clip = 1}, losses.data(),
                                norms.data(),
                                {.inverse_tokens = at,
                                 .loss = at + 1,
                                 .gradient_norm = at + 2,
                                 .clip_factor = at + 3,
                                 .apply = at + 4,
                                 .clipped = at + 5}));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(StepMistakesTest, SquaresPastTheLastElementAreOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SumSquaresKernel", [&] { RunSquares(); });
}

TEST_F(StepMistakesTest, SquaresWithoutTheBarrierBeforeTheWarpsSumsAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "SumSquaresKernel",
        [&] { RunSquares(); });
}

TEST_F(StepMistakesTest, SumsOfSumsWithoutTheBarrierBeforeTheyAreReadAreARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "SumOfSumsKernel",
        [&] { RunSquares(); });
}

TEST_F(StepMistakesTest, SquaresByLanesOutsideTheirMaskAreAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "SumSquaresKernel", [&] { RunSquares(); });
}

TEST_F(StepMistakesTest, FinishPastTheLastLeafIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "FinishStepKernel", [&] { RunFinish(); });
}

TEST_F(StepMistakesTest, FinishWithoutTheBarrierBeforeTheWarpsSumsAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "FinishStepKernel",
        [&] { RunFinish(); });
}

TEST_F(StepMistakesTest, FinishWithoutTheBarrierBeforeTheNextSetsIsARace) {
  Finds(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, "FinishStepKernel",
        [&] { RunFinish(); });
}

TEST_F(StepMistakesTest, FinishByLanesOutsideTheirMaskIsAWarpMask) {
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "FinishStepKernel", [&] { RunFinish(); });
}

class DequantiseMistakesTest : public MistakesTest {
 protected:
  template <bool kF32Scales>
  void RunNf4() {
    const int64_t bytes = kF32Scales ? kNf4F32UnitBytes : kNf4UnitBytes;
    DeviceArray<std::byte> unit(std::vector<std::byte>(bytes), stream_);
    auto weights = Array<BFloat16>(1000);
    STRATA_EXPECT_OK(DequantiseNf4(stream_, unit.data(), kF32Scales, 1000, weights.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }
};

TEST_F(DequantiseMistakesTest, Nf4PastTheLastElementIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "DequantiseNf4Kernel",
        [&] { RunNf4<false>(); });
}

TEST_F(DequantiseMistakesTest, Nf4WithoutTheBarrierBeforeTablesAreReadIsARace) {
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "DequantiseNf4Kernel",
        [&] { RunNf4<false>(); });
  Finds(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, "DequantiseNf4Kernel",
        [&] { RunNf4<true>(); });
}

TEST_F(DequantiseMistakesTest, Int8PastTheLastColumnIsOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "DequantiseInt8Kernel", [&] {
    DeviceArray<int8_t> codes(std::vector<int8_t>(3 * 40), stream_);
    auto scales = Array<float>(3), weights = Array<float>(3 * 40);
    STRATA_EXPECT_OK(DequantiseInt8(stream_, codes.data(), scales.data(), 3, 40, weights.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
