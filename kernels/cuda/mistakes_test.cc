// Mistakes planted in the kernels: the stand-in's checker finds each, in every order of threads.
#include "device/standin/standin.h"
#include "gmock/gmock.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/mistake.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/sgd.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/testing.h"
#include "kernels/cuda/update_testing.h"

namespace strata::kernels::cuda {
namespace {

using standin::Finding;
using standin::FindingKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

auto Is(FindingKind kind) { return Field(&Finding::kind, kind); }

class MistakesTest : public ::testing::Test {
 protected:
  // With the mistake planted, `run` leaves a finding of the kind in the kernel, and none without.
  template <typename Run>
  void Finds(Mistake mistake, FindingKind kind, const char* kernel, Run run) {
    using standin::ThreadOrder;
    for (const ThreadOrder order :
         {ThreadOrder::kAscending, ThreadOrder::kDescending, ThreadOrder::kRandom}) {
      SCOPED_TRACE(static_cast<int>(order));
      EXPECT_THAT(FindingsOf(Mistake::kNone, order, run), IsEmpty());
      EXPECT_THAT(FindingsOf(mistake, order, run),
                  Contains(AllOf(Is(kind), Field(&Finding::text, HasSubstr(kernel)))));
    }
  }

  template <typename T>
  DeviceArray<T> Array(int64_t count) {
    return DeviceArray<T>(testing::RandomOf<T>(count, 1), stream_);
  }

  cudaStream_t stream_ = nullptr;

 private:
  template <typename Run>
  std::vector<Finding> FindingsOf(Mistake mistake, standin::ThreadOrder order, Run run) {
    standin::Reset({.thread_order = order});
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    PlantMistake(mistake);
    run();
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    return standin::TakeFindings();
  }
};

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
