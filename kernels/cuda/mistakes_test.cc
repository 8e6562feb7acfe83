// Mistakes planted in the kernels: the stand-in's checker finds each, in every order of threads.
#include "device/standin/standin.h"
#include "gmock/gmock.h"
#include "kernels/cuda/mistake.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

using standin::Finding;
using standin::FindingKind;
using ::testing::AllOf;
using ::testing::AnyOf;
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

}  // namespace
}  // namespace strata::kernels::cuda
