// Mistakes planted in what cuBLASLt is told, and in how products are used: each is found by the
// checker, refused by the library, or shows in values; without it, nothing is.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/standin/standin.h"
#include "gmock/gmock.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/mistake.h"
#include "kernels/cuda/testing.h"
#include "kernels/reference/matmul.h"

namespace strata::kernels::cuda {
namespace {

using standin::Finding;
using standin::FindingKind;
using standin::StreamOrder;
using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using testing::RandomOf;
using testing::WidenOf;

// What is seen of a run.
struct Outcome {
  absl::Status status;
  std::vector<Finding> findings;
  double error = 0;  // the largest beyond one rounding to c's type, of the largest value
};

enum class Sign { kNothing, kRefusal, kFinding, kWrongValues };

// The first that there is.
Sign SignOf(const Outcome& outcome) {
  if (!outcome.status.ok()) return Sign::kRefusal;
  if (!outcome.findings.empty()) return Sign::kFinding;
  return outcome.error <= kTolerance ? Sign::kNothing : Sign::kWrongValues;
}

template <typename Body>
void InEachStreamOrder(const Body& body) {
  for (const StreamOrder order :
       {StreamOrder::kProgram, StreamOrder::kLatest, StreamOrder::kRandom}) {
    SCOPED_TRACE(absl::StrCat("stream order ", static_cast<int>(order)));
    standin::Reset({.stream_order = order});
    body();
  }
}

cudaStream_t NewStream() {
  cudaStream_t stream = nullptr;
  STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// --- In kernels/cuda/matmul.cc.

// Pointers lie `offset`, or `bias_offset`, elements behind their arrays' begins.
template <typename T>
Outcome Multiply(const MatmulShape& shape, MatmulOptions options, int64_t offset,
                 int64_t bias_offset) {
  Outcome outcome;
  const cudaStream_t stream = NewStream();
  auto library = MatmulLibrary::Create();
  EXPECT_TRUE(library.ok()) << library.status();
  const int64_t rows_a = shape.trans_a ? shape.k : shape.m,
                rows_b = shape.trans_b ? shape.n : shape.k;
  const auto a = RandomOf<T>(rows_a * shape.lda + offset, 1),
             b = RandomOf<T>(rows_b * shape.ldb + offset, 2),
             c = RandomOf<T>(shape.m * shape.ldc + offset, 3),
             bias = RandomOf<T>(shape.n + bias_offset, 4);
  DeviceArray<T> da(a, stream), db(b, stream), dc(c, stream), dbias(bias, stream);
  DeviceArray<char> workspace((*library)->workspace_bytes(), stream);
  const auto plan = (*library)->Plan(shape, options);
  outcome.status = plan.status();
  if (plan.ok()) {
    outcome.status =
        (*plan)->Run(stream, da.data() + offset, db.data() + offset, dc.data() + offset,
                     workspace.data(), options.bias ? dbias.data() + bias_offset : nullptr);
  }
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  outcome.findings = standin::TakeFindings();
  if (!outcome.status.ok()) return outcome;

  const auto from = [&](const auto& values) {
    const Doubles all = WidenOf(values);
    return Doubles(all.begin() + offset, all.end());
  };
  Doubles expected = reference::Matmul(shape, from(a), from(b), from(c));
  const Doubles actual = from(dc.ToHost());
  double largest = 0;
  for (int64_t i = 0; i < shape.m * shape.ldc; ++i) {
    if (options.bias && i % shape.ldc < shape.n)
      expected[i] += ToFloat(bias[bias_offset + i % shape.ldc]);
    largest = std::max(largest, std::abs(expected[i]));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const double rounding = testing::kRounding<T> * std::abs(expected[i]) * 1.001;
    const double error = (std::abs(actual[i] - expected[i]) - rounding) / largest;
    if (!(error <= outcome.error)) outcome.error = error;
  }
  return outcome;
}

struct Case {
  Mistake mistake;
  Sign sign;
  MatmulShape shape;
  MatmulOptions options = {};
  int64_t offset = 0, bias_offset = 0;
};

MatmulShape Square() { return {.m = 16, .n = 16, .k = 16, .lda = 16, .ldb = 16, .ldc = 16}; }
MatmulShape OfRows() { return {.m = 4, .n = 8, .k = 12, .lda = 12, .ldb = 8, .ldc = 8}; }
template <typename Change>
MatmulShape With(MatmulShape shape, const Change& change) {
  change(shape);
  return shape;
}

template <typename T>
void ExpectFound(const Case& planted) {
  InEachStreamOrder([&] {
    SCOPED_TRACE(absl::StrCat("mistake ", static_cast<int>(planted.mistake)));
    for (const bool plant : {false, true}) {
      PlantMistake(plant ? planted.mistake : Mistake::kNone);
      const Outcome outcome =
          Multiply<T>(planted.shape, planted.options, planted.offset, planted.bias_offset);
      // Without the mistake an unaligned bias is refused.
      const Sign right = planted.bias_offset != 0 ? Sign::kRefusal : Sign::kNothing;
      EXPECT_EQ(SignOf(outcome), plant ? planted.sign : right)
          << outcome.status << ", error " << outcome.error << ", "
          << ::testing::PrintToString(outcome.findings);
    }
    PlantMistake(Mistake::kNone);
  });
}

TEST(MatmulMistakesTest, WhatTheLibraryIsToldWrong) {
  const auto transposed = [](MatmulShape& s) { s.trans_b = true; };
  const auto accumulating = [](MatmulShape& s) { s.accumulate = true; };
  const auto rows_apart = [](MatmulShape& s) { s.ldb = 24; };
  const std::vector<Case> cases = {
      {Mistake::kRowDistancesSwapped, Sign::kRefusal, OfRows()},
      {Mistake::kRowDistancesSwapped, Sign::kFinding, With(Square(), rows_apart)},
      {Mistake::kTransposesSwapped, Sign::kRefusal,
       With(OfRows(), [](MatmulShape& s) { s.trans_b = true, s.ldb = 12; })},
      {Mistake::kTransposesSwapped, Sign::kWrongValues, With(Square(), transposed)},
      {Mistake::kFactorsNotSwapped, Sign::kRefusal, OfRows()},
      {Mistake::kFactorsNotSwapped, Sign::kWrongValues, Square()},
      {Mistake::kNoBeta, Sign::kWrongValues, With(Square(), accumulating)},
      {Mistake::kBiasNotSet, Sign::kFinding, Square(), {.bias = true}},
      {Mistake::kBiasUnaligned, Sign::kFinding, Square(), {.bias = true}, 0, 1},
      {Mistake::kAlignmentNotTold, Sign::kFinding, Square(), {.alignment = 4}, 1},
      {Mistake::kWorkspaceTooLarge, Sign::kFinding, Square()},
      {Mistake::kTf32Unasked, Sign::kWrongValues, Square()},
  };
  for (const Case& planted : cases) ExpectFound<float>(planted);
}

TEST(MatmulMistakesTest, PartsOfSumsRoundedToC) {
  const MatmulShape shape{.m = 16,
                          .n = 32,
                          .k = 512,
                          .lda = 512,
                          .ldb = 32,
                          .ldc = 32,
                          .type = NumberType::kBF16,
                          .out_type = NumberType::kBF16};
  ExpectFound<BFloat16>({Mistake::kSumsInOutputType, Sign::kWrongValues, shape});
}

// --- In the use of products: on two streams, as calls.

constexpr int64_t kSize = 32;

class TwoStreams {
 public:
  TwoStreams()
      : first_(NewStream()),
        second_(NewStream()),
        library_(*MatmulLibrary::Create()),
        plan_(*library_->Plan({.m = kSize, .n = kSize, .k = kSize})),
        x_(Floats(kSize * kSize, 1), first_),
        y_(kSize * kSize, first_),
        z_(kSize * kSize, second_),
        workspace_(library_->workspace_bytes(), first_),
        other_workspace_(library_->workspace_bytes(), second_) {
    STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(first_));
  }

  void Run(cudaStream_t stream, float* a, float* c, void* workspace) {
    STRATA_EXPECT_OK(plan_->Run(stream, a, x_.data(), c, workspace));
  }
  // y = x x on one stream, z = y x on the other.
  void Chain(bool waits) {
    Run(first_, x_.data(), y_.data(), workspace_.data());
    if (waits) {
      STRATA_EXPECT_CUDA(cudaEventRecord(event_, first_));
      STRATA_EXPECT_CUDA(cudaStreamWaitEvent(second_, event_, 0));
    }
    Run(second_, y_.data(), z_.data(), other_workspace_.data());
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }
  // y = x x and z = x x at once.
  void SideBySide(bool shared, cudaError_t end = cudaSuccess) {
    Run(first_, x_.data(), y_.data(), workspace_.data());
    Run(second_, x_.data(), z_.data(), shared ? workspace_.data() : other_workspace_.data());
    EXPECT_EQ(cudaDeviceSynchronize(), end);
  }
  absl::Status Again() {
    return plan_->Run(first_, x_.data(), x_.data(), y_.data(), workspace_.data());
  }
  void OverwrittenInput() {
    Run(first_, x_.data(), y_.data(), workspace_.data());
    STRATA_EXPECT_CUDA(cudaMemsetAsync(x_.data(), 0, kSize * kSize * sizeof(float), second_));
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }
  void UnwrittenInput(bool writes) {
    if (writes) {
      STRATA_EXPECT_CUDA(cudaMemsetAsync(y_.data(), 0, kSize * kSize * sizeof(float), first_));
    }
    Run(first_, y_.data(), z_.data(), workspace_.data());
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }
  void InPlace() {
    Run(first_, x_.data(), x_.data(), workspace_.data());
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }
  // Other numbers lie in the middle of the workspace.
  void InTheWorkspace() {
    STRATA_EXPECT_CUDA(cudaMemsetAsync(workspace_.data() + (8 << 20), 0, 16 << 10, second_));
    Run(first_, x_.data(), y_.data(), workspace_.data());
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }

 private:
  cudaStream_t first_, second_;
  cudaEvent_t event_ = nullptr;
  std::unique_ptr<MatmulLibrary> library_;
  const MatmulPlan* plan_;
  DeviceArray<float> x_, y_, z_;
  DeviceArray<char> workspace_, other_workspace_;
};

template <typename Body>
void ExpectKind(FindingKind kind, const Body& body) {
  InEachStreamOrder([&] {
    TwoStreams streams;
    body(streams);
    EXPECT_THAT(standin::TakeFindings(), Contains(Field(&Finding::kind, kind)));
  });
}
template <typename Body>
void ExpectNothing(const Body& body) {
  InEachStreamOrder([&] {
    TwoStreams streams;
    body(streams);
    EXPECT_THAT(standin::TakeFindings(), IsEmpty());
  });
}

TEST(MatmulUseTest, AnEventMissingBetweenAProductAndTheNext) {
  ExpectNothing([](TwoStreams& streams) { streams.Chain(true); });
  ExpectKind(FindingKind::kRace, [](TwoStreams& streams) { streams.Chain(false); });
}

TEST(MatmulUseTest, AWorkspaceOfTwoStreamsAtOnce) {
  ExpectNothing([](TwoStreams& streams) { streams.SideBySide(false); });
  ExpectKind(FindingKind::kRace, [](TwoStreams& streams) { streams.SideBySide(true); });
}

TEST(MatmulUseTest, AFactorThatIsOverwrittenTooEarly) {
  ExpectKind(FindingKind::kRace, [](TwoStreams& streams) { streams.OverwrittenInput(); });
}

TEST(MatmulUseTest, AFactorThatNothingWrote) {
  ExpectNothing([](TwoStreams& streams) { streams.UnwrittenInput(true); });
  ExpectKind(FindingKind::kUninitialised,
             [](TwoStreams& streams) { streams.UnwrittenInput(false); });
}

TEST(MatmulUseTest, AProductInPlace) {
  ExpectKind(FindingKind::kRace, [](TwoStreams& streams) { streams.InPlace(); });
}

TEST(MatmulUseTest, NumbersInTheMiddleOfAWorkspace) {
  ExpectKind(FindingKind::kRace, [](TwoStreams& streams) { streams.InTheWorkspace(); });
}

// A device that fails while it multiplies: the next product says so.
TEST(MatmulUseTest, ADeviceThatHasFailed) {
  InEachStreamOrder([] {
    TwoStreams streams;
    standin::FailOperation(1, cudaErrorLaunchFailure);
    streams.SideBySide(false, cudaErrorLaunchFailure);
    EXPECT_EQ(streams.Again().code(), absl::StatusCode::kInternal);
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
