// What the stand-in says of the order of labelled work, of values and of host threads.
#include "device/standin/order.h"

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kCount = 64, kBytes = kCount * sizeof(float);

cudaStream_t MakeStream() {
  cudaStream_t stream;
  STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// What was recorded on `from` comes before what `to` is handed next.
void Order(cudaStream_t from, cudaStream_t to) {
  cudaEvent_t event;
  STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  STRATA_EXPECT_CUDA(cudaEventRecord(event, from));
  STRATA_EXPECT_CUDA(cudaStreamWaitEvent(to, event, 0));
}

// Two streams, three buffers, and a number in pinned memory.
class OrderTest : public testing::TestWithParam<StreamOrder> {
 protected:
  void SetUp() override {
    Reset({.stream_order = GetParam()});
    SetLabel("", 0);
    first_ = MakeStream();
    second_ = MakeStream();
    for (float** buffer : {&x_, &y_, &z_}) {
      STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(buffer), kBytes));
      STRATA_EXPECT_CUDA(cudaMemsetAsync(*buffer, 0, kBytes, first_));
    }
    STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes));
    *pinned_ = 0;
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  }

  void Fill(const char* label, cudaStream_t stream, float* buffer, int64_t turn = 0) {
    SetLabel(label, turn);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(buffer, 1, kBytes, stream));
    SetLabel("", 0);
  }
  // Of which there is one.
  Piece Take(const std::string& label) {
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
    for (Piece& piece : TakePieces()) pieces_.push_back(std::move(piece));
    for (const Piece& piece : pieces_) {
      if (piece.label == label) return piece;
    }
    ADD_FAILURE() << "no piece " << label;
    return {};
  }
  std::vector<std::string> Texts() {
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
    std::vector<std::string> texts;
    for (const Finding& finding : TakeFindings()) texts.push_back(finding.text);
    return texts;
  }
  static void OnValue(const char* name, cudaStream_t stream, const uint32_t* at, uint32_t value,
                      unsigned flags) {
    void* function = nullptr;
    STRATA_EXPECT_CUDA(
        cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, nullptr));
    using Function = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    EXPECT_EQ(reinterpret_cast<Function>(function)(stream, reinterpret_cast<CUdeviceptr>(at), value,
                                                   flags),
              CUDA_SUCCESS);
  }
  void WaitForValue(cudaStream_t stream, uint32_t value) {
    OnValue("cuStreamWaitValue32", stream, pinned_, value, CU_STREAM_WAIT_VALUE_GEQ);
  }
  void WriteValue(cudaStream_t stream, uint32_t value) {
    OnValue("cuStreamWriteValue32", stream, pinned_, value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  float *x_ = nullptr, *y_ = nullptr, *z_ = nullptr;
  uint32_t* pinned_ = nullptr;
  std::vector<Piece> pieces_;
};

TEST_P(OrderTest, StreamsAreConcurrentUntilAnEventOrdersThem) {
  Fill("a", first_, x_);
  Fill("b", second_, y_);
  Order(first_, second_);
  Fill("c", second_, y_);
  const Piece a = Take("a"), b = Take("b"), c = Take("c");
  EXPECT_TRUE(AreConcurrent(a, b));
  EXPECT_TRUE(IsBefore(a, c) && IsBefore(b, c));
  EXPECT_FALSE(IsBefore(c, a) || AreConcurrent(a, c));
}

TEST_P(OrderTest, WhatAHostThreadWaitedForComesBefore) {
  Fill("a", first_, x_);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(first_));
  Fill("b", second_, y_);
  EXPECT_TRUE(IsBefore(Take("a"), Take("b")));
}

TEST_P(OrderTest, GraphsHaveTheLabelOfTheirCaptureAndTheTurnOfTheirLaunch) {
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
  Fill("a", first_, x_, 1);
  Fill("b", first_, x_, 1);
  cudaGraph_t graph;
  STRATA_EXPECT_CUDA(cudaStreamEndCapture(first_, &graph));
  cudaGraphExec_t execution;
  STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
  for (int turn = 2; turn < 4; ++turn) {
    SetLabel("launch", turn);
    STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, first_));
  }
  SetLabel("", 0);
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  std::vector<std::string> pieces;
  const std::vector<Piece> taken = TakePieces();
  for (const Piece& piece : taken) pieces.push_back(piece.label + std::to_string(piece.turn));
  EXPECT_THAT(pieces, ElementsAre("a2", "b2", "a3", "b3"));
  EXPECT_TRUE(IsBefore(taken[1], taken[2]));
}

// What other threads have waited for says nothing of a writer that is known; who is not may have
// been told of it.
TEST_P(OrderTest, AStreamThatWaitedForAHostsValueIsBehindWhatTheHostMayKnow) {
  for (const bool known : {true, false}) {
    const uint32_t value = known ? 1 : 2;
    const std::string behind = known ? "behind the known" : "behind the unknown";
    if (known) DeclareHostValue(MakeStream(), pinned_, value);
    WaitForValue(second_, value);
    Fill(behind.c_str(), second_, y_);
    Fill("other", first_, x_, value);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(first_));
    __atomic_store_n(pinned_, value, __ATOMIC_SEQ_CST);
    const Piece later = Take(behind);
    const auto other = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return piece.label == "other" && piece.turn == value;
    });
    ASSERT_NE(other, pieces_.end());
    EXPECT_EQ(AreConcurrent(later, *other), known);
  }
}

TEST_P(OrderTest, AStreamThatWaitedForAStreamsValueIsBehindIt) {
  WaitForValue(second_, 2);  // before it is written, and after
  Fill("early", second_, y_);
  Fill("a", first_, x_);
  WriteValue(first_, 1);
  Fill("b", first_, x_);
  WriteValue(first_, 2);
  Fill("c", first_, x_);
  WriteValue(first_, 3);
  cudaStream_t third = MakeStream();
  WaitForValue(third, 1);
  Fill("late", third, z_);
  const Piece a = Take("a"), b = Take("b"), c = Take("c");
  EXPECT_TRUE(IsBefore(b, Take("early")));
  EXPECT_TRUE(AreConcurrent(c, Take("early")));
  EXPECT_TRUE(IsBefore(a, Take("late")));
  EXPECT_TRUE(AreConcurrent(b, Take("late")));
}

// A host thread writes pinned memory, a stream reads it: behind the thread's value, or not.
TEST_P(OrderTest, WhatAHostThreadDoesHasItsPlace) {
  const cudaStream_t thread = MakeStream();
  for (const bool waits : {true, false}) {
    SetLabel("the thread's write", 0);
    DeclareHostAccess(thread, pinned_ + 4, 4, /*writes=*/true);
    DeclareHostValue(thread, pinned_, 1);
    *pinned_ = 1;
    if (waits) WaitForValue(first_, 1);
    SetLabel("the copy", 0);
    STRATA_EXPECT_CUDA(cudaMemcpyAsync(x_, pinned_ + 4, 4, cudaMemcpyHostToDevice, first_));
    SetLabel("the thread's next write", 0);
    DeclareHostWait(thread, first_);
    DeclareHostAccess(thread, pinned_ + 4, 4, /*writes=*/true);
    SetLabel("", 0);
    const std::vector<std::string> findings = Texts();
    if (waits) {
      EXPECT_THAT(findings, IsEmpty());
    } else {
      EXPECT_THAT(findings,
                  testing::Contains(testing::AllOf(
                      HasSubstr("race"), HasSubstr("the thread's write"), HasSubstr("the copy"))));
    }
  }
}

TEST_P(OrderTest, ACallThatIsLeftOutIsMissed) {
  LeaveOutCall("cudaStreamWaitEvent", 1);
  Fill("a", first_, x_);
  Order(first_, second_);
  Fill("b", second_, x_);
  EXPECT_EQ(CallsOf("cudaStreamWaitEvent"), 1);
  EXPECT_TRUE(AreConcurrent(Take("a"), Take("b")));
  EXPECT_THAT(Texts(), ElementsAre(testing::AllOf(HasSubstr(" of a"), HasSubstr(" of b"))));
}

TEST_P(OrderTest, ACallOnAnotherStreamIsFound) {
  MoveCall("cudaMemsetAsync", 2, second_);
  Fill("a", first_, x_);
  Fill("b", first_, x_);
  Fill("c", first_, y_);
  EXPECT_TRUE(AreConcurrent(Take("a"), Take("b")));
  EXPECT_TRUE(IsBefore(Take("a"), Take("c")));
  EXPECT_THAT(Texts(), testing::SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Orders, OrderTest,
                         testing::Values(StreamOrder::kProgram, StreamOrder::kLatest,
                                         StreamOrder::kRandom));

}  // namespace
}  // namespace strata::standin
