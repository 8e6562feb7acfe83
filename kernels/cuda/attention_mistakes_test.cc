// Mistakes planted in attention's kernels: the stand-in's checker finds each, in every order of
// threads; what has no fault but its values differs from the reference.
#include "kernels/cuda/attention_testing.h"
#include "kernels/cuda/mistakes_testing.h"

namespace strata::kernels::cuda {
namespace {

// Several tiles of each kernel's; the last one is not full.
constexpr AttentionShape kShape = {.batch = 1,
                                   .sequence = 133,
                                   .heads = 1,
                                   .kv_heads = 1,
                                   .head_size = 16,
                                   .scores = {.window = 90}};

class AttentionMistakesTest : public MistakesTest {
 protected:
  template <typename T>
  std::vector<T> Forward() {
    auto qkv = Array<T>(kShape.sequence * QkvColumns(kShape));
    DeviceArray<T> out(kShape.sequence * kShape.head_size, stream_);
    DeviceArray<float> lse(kShape.sequence, stream_);
    STRATA_EXPECT_OK(
        AttentionForward<T>(stream_, kShape, qkv.data(), nullptr, out.data(), lse.data()));
    return out.ToHost();
  }

  // Of values that nothing was made from: kernels read them all the same.
  template <typename T>
  std::vector<T> Backward(const AttentionShape& shape = kShape) {
    const int64_t out_count = shape.sequence * shape.heads * shape.head_size;
    auto qkv = Array<T>(shape.sequence * QkvColumns(shape)), out = Array<T>(out_count),
         dout = Array<T>(out_count);
    DeviceArray<float> lse(Floats(shape.sequence * shape.heads, 4), stream_),
        workspace(AttentionBackwardWorkspaceBytes(shape) / sizeof(float), stream_);
    DeviceArray<T> dqkv(shape.sequence * QkvColumns(shape), stream_);
    STRATA_EXPECT_OK(AttentionBackward<T>(stream_, shape, dout.data(), qkv.data(), out.data(),
                                          lse.data(), nullptr, dqkv.data(), workspace.data()));
    return dqkv.ToHost();
  }

  template <typename T>
  void FindsInForward(Mistake mistake, FindingKind kind, const char* kernel) {
    Finds(mistake, kind, kernel, [&] { Forward<T>(); });
  }
  template <typename T>
  void FindsInBackward(Mistake mistake, FindingKind kind, const char* kernel) {
    Finds(mistake, kind, kernel, [&] { Backward<T>(); });
  }

  // The largest distance between what `run` makes with the mistake and without.
  template <typename Run>
  double Difference(Mistake mistake, Run run) {
    Floats results[2];
    for (const bool planted : {false, true}) {
      standin::Reset({});
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
      PlantMistake(planted ? mistake : Mistake::kNone);
      results[planted] = testing::Back(run());
      EXPECT_THAT(standin::TakeFindings(), ::testing::IsEmpty());
    }
    double largest = 0;
    for (size_t i = 0; i < results[0].size(); ++i) {
      largest = std::max<double>(largest, std::abs(results[0][i] - results[1][i]));
    }
    return largest;
  }
};

constexpr char kTensorForward[] = "TensorForwardKernel";
constexpr char kTensorOfQueries[] = "TensorQueriesBackwardKernel",
               kTensorOfKeys[] = "TensorKeysBackwardKernel";
constexpr char kSimpleForward[] = "SimpleForwardKernel", kSimpleBackward[] = "SimpleBackwardKernel";

TEST_F(AttentionMistakesTest, KeysAreReadBeforeTheirCopyHasEnded) {
  FindsInForward<BFloat16>(Mistake::kNoCopyWait, FindingKind::kAsyncCopy, kTensorForward);
}

TEST_F(AttentionMistakesTest, ValuesAreReadWithoutABarrierBehindOthersCopies) {
  FindsInForward<BFloat16>(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, kTensorForward);
}

TEST_F(AttentionMistakesTest, ValuesAreReplacedBeforeOthersHaveReadThem) {
  FindsInForward<BFloat16>(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, kTensorForward);
}

TEST_F(AttentionMistakesTest, KeysPastTheLastAreOutOfBounds) {
  FindsInForward<BFloat16>(Mistake::kNoBound, FindingKind::kOutOfBounds, kTensorForward);
}

TEST_F(AttentionMistakesTest, LanesOfARowOutsideTheirMaskAreAWarpMask) {
  FindsInForward<BFloat16>(Mistake::kNarrowMask, FindingKind::kWarpMask, kTensorForward);
}

TEST_F(AttentionMistakesTest, AWindowOfOneKeyTooManyGivesOtherValues) {
  EXPECT_GT(Difference(Mistake::kWindowOffByOne, [&] { return Forward<BFloat16>(); }), 0.02);
  EXPECT_GT(Difference(Mistake::kWindowOffByOne, [&] { return Backward<BFloat16>(); }), 0.02);
  EXPECT_GT(Difference(Mistake::kWindowOffByOne, [&] { return Forward<float>(); }), 0.02);
  EXPECT_GT(Difference(Mistake::kWindowOffByOne, [&] { return Backward<float>(); }), 0.02);
}

TEST_F(AttentionMistakesTest, GradientReadsTilesBeforeTheirCopyHasEnded) {
  FindsInBackward<BFloat16>(Mistake::kNoCopyWait, FindingKind::kAsyncCopy, kTensorOfQueries);
  FindsInBackward<BFloat16>(Mistake::kNoCopyWait, FindingKind::kAsyncCopy, kTensorOfKeys);
}

TEST_F(AttentionMistakesTest, GradientReadsTilesWithoutABarrierBehindOthersCopies) {
  FindsInBackward<BFloat16>(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, kTensorOfQueries);
  FindsInBackward<BFloat16>(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, kTensorOfKeys);
}

TEST_F(AttentionMistakesTest, GradientReadsWeightsBeforeTheOtherWarpHasLeftThem) {
  FindsInBackward<BFloat16>(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, kTensorOfKeys);
}

TEST_F(AttentionMistakesTest, GradientPastTheLastRowIsOutOfBounds) {
  FindsInBackward<BFloat16>(Mistake::kNoBound, FindingKind::kOutOfBounds, kTensorOfQueries);
  FindsInBackward<BFloat16>(Mistake::kNoBound, FindingKind::kOutOfBounds, kTensorOfKeys);
}

TEST_F(AttentionMistakesTest, GradientsOfPartsPastTheLastRowAreOutOfBounds) {
  const AttentionShape groups{
      .batch = 1, .sequence = 5, .heads = 2, .kv_heads = 1, .head_size = 16};
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "SumPartialsKernel",
        [&] { Backward<BFloat16>(groups); });
}

TEST_F(AttentionMistakesTest, InF32TilesAreReadWithoutABarrier) {
  FindsInForward<float>(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, kSimpleForward);
  FindsInBackward<float>(Mistake::kNoBarrierBeforeRead, FindingKind::kRace, kSimpleBackward);
}

TEST_F(AttentionMistakesTest, InF32TilesAreReplacedBeforeOthersHaveReadThem) {
  FindsInForward<float>(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, kSimpleForward);
  FindsInBackward<float>(Mistake::kNoBarrierBeforeReuse, FindingKind::kRace, kSimpleBackward);
}

TEST_F(AttentionMistakesTest, InF32PastTheLastRowIsOutOfBounds) {
  FindsInForward<float>(Mistake::kNoBound, FindingKind::kOutOfBounds, kSimpleForward);
  FindsInBackward<float>(Mistake::kNoBound, FindingKind::kOutOfBounds, kSimpleBackward);
}

TEST_F(AttentionMistakesTest, InF32LanesOutsideTheirMaskAreAWarpMask) {
  FindsInForward<float>(Mistake::kNarrowMask, FindingKind::kWarpMask, kSimpleForward);
}

TEST_F(AttentionMistakesTest, DeltaPastTheLastRowAndByLanesOutsideTheirMask) {
  const auto run = [&] {
    auto out = Array<BFloat16>(3 * 2 * 24), dout = Array<BFloat16>(3 * 2 * 24);
    DeviceArray<float> delta(6, stream_);
    STRATA_EXPECT_OK(
        AttentionDelta<BFloat16>(stream_, {1, 3, 2, 2, 24}, dout.data(), out.data(), delta.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  };
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "DeltaKernel", run);
  Finds(Mistake::kNarrowMask, FindingKind::kWarpMask, "DeltaKernel", run);
}

TEST_F(AttentionMistakesTest, RowsToACachePastTheLastAreOutOfBounds) {
  Finds(Mistake::kNoBound, FindingKind::kOutOfBounds, "AppendKernel", [&] {
    auto qkv = Array<BFloat16>(3 * 24), k_cache = Array<BFloat16>(3 * 8),
         v_cache = Array<BFloat16>(3 * 8), out = Array<BFloat16>(3 * 8);
    DeviceArray<double> found(Doubles{0, 3}, stream_);
    STRATA_EXPECT_OK(AppendToCache<BFloat16>(
        stream_, {.batch = 1, .rows = 3, .context = 3, .heads = 1, .kv_heads = 1, .head_size = 8},
        {found.data(), found.data() + 1}, qkv.data(), k_cache.data(), v_cache.data(), out.data()));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
