// Mistakes planted in kernels: each is found in every order of threads, at a line of its source.
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto Is(FindingKind kind) { return Field(&Finding::kind, kind); }
auto Says(const char* text) { return Field(&Finding::text, HasSubstr(text)); }

class KernelMistakesTest : public testing::Test {
 protected:
  template <typename Body>
  void InEachOrder(Body body) {
    for (const ThreadOrder order :
         {ThreadOrder::kAscending, ThreadOrder::kDescending, ThreadOrder::kRandom}) {
      SCOPED_TRACE(static_cast<int>(order));
      Reset({.thread_order = order});
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
      body();
      if (HasFatalFailure()) return;
    }
  }

  void RunNorm(Mistake mistake, int channels = 1024) {
    constexpr int kRows = 2;
    const std::vector<__nv_bfloat16> values(kRows * channels, __float2bfloat16(0.5f));
    DeviceArray<__nv_bfloat16> x(values, stream_), branch(values, stream_),
        sum(values.size(), stream_), y(values.size(), stream_);
    DeviceArray<float> weight(std::vector<float>(channels, 1.f), stream_), rstd(kRows, stream_);
    AddRmsNorm(stream_, kRows, channels, 1e-5f, x.data(), branch.data(), weight.data(), sum.data(),
               y.data(), rstd.data(), mistake);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }

  void RunLoss(Mistake mistake) {
    constexpr int kRows = 2, kVocabulary = 300;
    DeviceArray<int> targets(std::vector<int>{290, 7}, stream_);
    DeviceArray<__nv_bfloat16> logits(
        std::vector<__nv_bfloat16>(kRows * kVocabulary, __float2bfloat16(0.25f)), stream_);
    DeviceArray<float> losses(kRows, stream_);
    CrossEntropy(stream_, kRows, kVocabulary, 1.f, targets.data(), logits.data(), losses.data(),
                 mistake);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  }

  void RunProduct(Mistake mistake) {
    constexpr int kM = 64, kN = 64, kK = 128;
    DeviceArray<__nv_bfloat16> a(std::vector<__nv_bfloat16>(kM * kK, __float2bfloat16(1.f)),
                                 stream_),
        b(std::vector<__nv_bfloat16>(kN * kK, __float2bfloat16(2.f)), stream_);
    DeviceArray<float> c(kM * kN, stream_);
    TileProduct(stream_, kM, kN, kK, a.data(), b.data(), c.data(), mistake);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    product_ = c.ToHost();
  }

  cudaStream_t stream_ = nullptr;
  std::vector<float> product_;
};

TEST_F(KernelMistakesTest, NoMistakeIsNoFinding) {
  InEachOrder([&] {
    RunNorm(Mistake::kNone);
    RunLoss(Mistake::kNone);
    RunProduct(Mistake::kNone);
    EXPECT_THAT(product_, Each(256.f));
    EXPECT_THAT(TakeFindings(), IsEmpty());
    EXPECT_GT(GetCounters().accesses, 1000);
  });
}

TEST_F(KernelMistakesTest, ABarrierMissingBeforeAReadIsARace) {
  InEachOrder([&] {
    RunNorm(Mistake::kNoBarrierBeforeRead);
    const auto findings = TakeFindings();
    EXPECT_THAT(findings, Contains(AllOf(Is(FindingKind::kRace), Says("partial+"),
                                         Says("row_kernels.cu:"), Says("AddRmsNormKernel"))));
  });
}

// In ascending order, warp 0 reads before the others have written.
TEST_F(KernelMistakesTest, ABarrierMissingBeforeAReadShowsUninitialisedMemoryToo) {
  Reset({.thread_order = ThreadOrder::kAscending});
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  RunNorm(Mistake::kNoBarrierBeforeRead);
  EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kUninitialised), Says("partial+"))));
}

TEST_F(KernelMistakesTest, ABarrierMissingBeforeSharedMemoryIsWrittenAgainIsARace) {
  InEachOrder([&] {
    RunLoss(Mistake::kNoBarrierBeforeReuse);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kRace), Says("partial+"), Says("row_kernels.cu:"))));
  });
}

TEST_F(KernelMistakesTest, ThreadsThatLeaveBeforeABarrierAreADivergentBarrier) {
  InEachOrder([&] {
    RunNorm(Mistake::kReturnBeforeBarrier, 776);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kDivergentBarrier), Says("31 threads have left"))));
  });
}

TEST_F(KernelMistakesTest, AnElementThatNobodyWritesIsUninitialised) {
  InEachOrder([&] {
    RunNorm(Mistake::kElementNeverWritten);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kUninitialised), Says("partial+4"))));
  });
}

TEST_F(KernelMistakesTest, ElementsPastTheRowAreOutOfBounds) {
  InEachOrder([&] {
    RunNorm(Mistake::kPastTheRow);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kOutOfBounds), Says("row_kernels.cu:"),
                               Says("of global #1 (4096 bytes)"))));
  });
}

TEST_F(KernelMistakesTest, AWideAccessAtAnOddAddressIsMisaligned) {
  InEachOrder([&] {
    RunNorm(Mistake::kMisaligned);
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kMisaligned), Says("multiple of 2"),
                                               Says("row_kernels.cu:"))));
  });
}

TEST_F(KernelMistakesTest, APlainStoreWhereAnAtomicIsDueIsARaceBetweenBlocks) {
  InEachOrder([&] {
    const std::vector<float> ones(2000, 1.f);
    std::vector<float> gradients(2000, 1.f);
    for (size_t i = 0; i < gradients.size(); i += 100) gradients[i] = NAN;
    for (const Mistake mistake : {Mistake::kNone, Mistake::kPlainStoreForAtomic}) {
      DeviceArray<float> master(ones, stream_), m(ones, stream_), v(ones, stream_),
          gradient(gradients, stream_);
      DeviceArray<__nv_bfloat16> parameter(ones.size(), stream_);
      DeviceArray<unsigned> flag(std::vector<unsigned>{0}, stream_);
      AdamWTensors list{};
      list.count = 1;
      list.tensors[0] = {master.data(),   m.data(),         v.data(),
                         gradient.data(), parameter.data(), 2000};
      AdamW(stream_, list, {}, flag.data(), mistake);
      EXPECT_THAT(flag.ToHost(), testing::ElementsAre(1));
      if (mistake == Mistake::kNone) {
        EXPECT_THAT(TakeFindings(), IsEmpty());
      } else {
        EXPECT_THAT(TakeFindings(),
                    Contains(AllOf(Is(FindingKind::kRace), Says("elementwise_kernels.cu:"))));
      }
    }
  });
}

TEST_F(KernelMistakesTest, AWrongShuffleMaskIsFound) {
  InEachOrder([&] {
    RunLoss(Mistake::kWrongShuffleMask);
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kWarpMask), Says("shfl.sync"),
                                               Says("row_kernels.cu:"))));
  });
}

TEST_F(KernelMistakesTest, AWriteInPlaceBeforeAnotherThreadsReadIsARace) {
  InEachOrder([&] {
    RunLoss(Mistake::kInPlaceTooEarly);
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kRace), Says("global"),
                                               Says("CrossEntropyKernel"))));
  });
}

TEST_F(KernelMistakesTest, AnAsynchronousCopyUsedBeforeItsWaitIsFound) {
  InEachOrder([&] {
    RunProduct(Mistake::kNoWaitForCopy);
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kAsyncCopy), Says("is used"),
                                               Says("tile_product.cu:"))));
  });
}

// The values are right in every order: the checker alone sees it.
TEST_F(KernelMistakesTest, ADoubleBufferWithoutItsSecondBarrierIsARace) {
  InEachOrder([&] {
    RunProduct(Mistake::kNoSecondBarrier);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kRace), Says("tiles_"), Says("tile_product.cu:"))));
  });
}

TEST_F(KernelMistakesTest, AnAsynchronousCopyThatIsNeverWaitedForIsFound) {
  InEachOrder([&] {
    RunProduct(Mistake::kCopyNeverWaitedFor);
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kAsyncCopy), Says("never waited for"))));
  });
}

TEST_F(KernelMistakesTest, LanesThatExchangeWithoutSyncwarpRace) {
  InEachOrder([&] {
    DeviceArray<int> out(32, stream_);
    ExchangeByWarp(stream_, out.data(), true);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_THAT(TakeFindings(), IsEmpty());
    ExchangeByWarp(stream_, out.data(), false);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kRace), Says("values+"))));
  });
}

TEST_F(KernelMistakesTest, TheLastBlockWithoutAFenceRaces) {
  InEachOrder([&] {
    constexpr int kBlocks = 6;
    DeviceArray<float> x(std::vector<float>(1000, 1.f), stream_), partials(kBlocks, stream_),
        total(1, stream_);
    DeviceArray<unsigned> ticket(std::vector<unsigned>{0}, stream_);
    SumByLastBlock(stream_, kBlocks, 1000, x.data(), partials.data(), ticket.data(), total.data(),
                   Ticket::kUnfenced);
    EXPECT_THAT(total.ToHost(), testing::ElementsAre(1000.f));
    EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kRace), Says("global"),
                                               Says("last_block_kernels.cu:"))));
  });
}

TEST_F(KernelMistakesTest, AShuffleThatHalfOfTheWarpNeverComesToIsADeadlock) {
  InEachOrder([&] {
    DeviceArray<int> out(32, stream_);
    HalfOfTheWarpWaits(stream_, out.data());
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    EXPECT_THAT(TakeFindings(),
                Contains(AllOf(Is(FindingKind::kDeadlock), Says("small_kernels.cu:"))));
  });
}

TEST_F(KernelMistakesTest, AKernelThatNeverEndsIsStopped) {
  Reset({.instruction_limit = 10'000});
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  DeviceArray<int> flag(std::vector<int>{0}, stream_);
  WaitForever(stream_, flag.data());
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_THAT(TakeFindings(), Contains(Is(FindingKind::kEndless)));
}

TEST_F(KernelMistakesTest, AnUnknownInstructionStopsTheKernelByItsName) {
  Reset();
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  DeviceArray<int64_t> out(1, stream_);
  ReadClock(stream_, out.data());
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kUnsupported), Says("%clock64"))));
}

TEST_F(KernelMistakesTest, WithoutTheCheckerNothingIsFoundButBoundsAndBarriers) {
  Reset({.check = false});
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  RunProduct(Mistake::kNoSecondBarrier);
  EXPECT_THAT(TakeFindings(), IsEmpty());
  EXPECT_EQ(GetCounters().accesses, 0);
}

}  // namespace
}  // namespace strata::standin
