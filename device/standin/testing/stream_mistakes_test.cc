// Layers stream through two device buffers on three streams: fetched, computed with, evicted. Each
// wait between them, left out, is found in one run, in any order and where the values are right;
// as calls and as a graph.
#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

enum class Missing {
  kNothing,
  kFetchWaitsForCompute,  // the buffer is still read
  kComputeWaitsForFetch,
  kComputeWaitsForEvict,  // the result is still read
  kEvictWaitsForCompute,
  kEndWaitsForEvict,  // the graph's end, or the host, waits for another stream
};

constexpr int kLayers = 6, kCount = 512, kBytes = kCount * sizeof(float);

// Pinned host memory of all layers.
class PinnedFloats {
 public:
  explicit PinnedFloats(float first, float step) {
    STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data_), kLayers * kBytes));
    for (int i = 0; i < kLayers * kCount; ++i) data_[i] = first + step * static_cast<float>(i);
  }
  ~PinnedFloats() { cudaFreeHost(data_); }
  PinnedFloats(const PinnedFloats&) = delete;
  PinnedFloats& operator=(const PinnedFloats&) = delete;
  float* layer(int i) { return data_ + i * kCount; }

 private:
  float* data_ = nullptr;
};

class Pipeline {
 public:
  Pipeline() : in_(0, 1), out_(-1, 0) {
    for (cudaStream_t* stream : {&fetch_, &compute_, &evict_}) {
      STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (auto* events : {&fetched_, &computed_, &evicted_}) {
      for (cudaEvent_t& event : *events) event = MakeEvent();
    }
    for (int i = 0; i < 2; ++i) {
      STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&x_[i]), kBytes));
      STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&y_[i]), kBytes));
    }
  }

  void Issue(Missing missing) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const int buffer = layer % 2;
      if (layer >= 2 && missing != Missing::kFetchWaitsForCompute) {
        Wait(fetch_, computed_[layer - 2]);
      }
      STRATA_EXPECT_CUDA(
          cudaMemcpyAsync(x_[buffer], in_.layer(layer), kBytes, cudaMemcpyHostToDevice, fetch_));
      STRATA_EXPECT_CUDA(cudaEventRecord(fetched_[layer], fetch_));
      if (missing != Missing::kComputeWaitsForFetch) Wait(compute_, fetched_[layer]);
      if (layer >= 2 && missing != Missing::kComputeWaitsForEvict) {
        Wait(compute_, evicted_[layer - 2]);
      }
      Scale(compute_, kCount, x_[buffer], y_[buffer]);
      STRATA_EXPECT_CUDA(cudaEventRecord(computed_[layer], compute_));
      if (missing != Missing::kEvictWaitsForCompute) Wait(evict_, computed_[layer]);
      STRATA_EXPECT_CUDA(
          cudaMemcpyAsync(out_.layer(layer), y_[buffer], kBytes, cudaMemcpyDeviceToHost, evict_));
      STRATA_EXPECT_CUDA(cudaEventRecord(evicted_[layer], evict_));
    }
  }

  void RunPlain(Missing missing) {
    Issue(missing);
    const bool wrong = missing == Missing::kEndWaitsForEvict;
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(wrong ? fetch_ : evict_));
  }

  // Captured once, launched twice. Returns what the end of the capture returned.
  cudaError_t RunGraph(Missing missing) {
    cudaEvent_t begin = MakeEvent(), fetched = MakeEvent();
    STRATA_EXPECT_CUDA(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
    STRATA_EXPECT_CUDA(cudaEventRecord(begin, compute_));
    Wait(fetch_, begin);
    Wait(evict_, begin);
    Issue(missing);
    STRATA_EXPECT_CUDA(cudaEventRecord(fetched, fetch_));
    Wait(compute_, fetched);
    if (missing != Missing::kEndWaitsForEvict) Wait(compute_, evicted_[kLayers - 1]);
    cudaGraph_t graph;
    if (const cudaError_t error = cudaStreamEndCapture(compute_, &graph); error != cudaSuccess) {
      return error;
    }
    cudaGraphExec_t execution;
    STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
    for (int step = 0; step < 2; ++step) STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, compute_));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(compute_));
    STRATA_EXPECT_CUDA(cudaGraphExecDestroy(execution));
    STRATA_EXPECT_CUDA(cudaGraphDestroy(graph));
    return cudaSuccess;
  }

  int WrongValues() {
    int wrong = 0;
    for (int i = 0; i < kLayers * kCount; ++i) {
      wrong += out_.layer(0)[i] != 2 * static_cast<float>(i) + 1;
    }
    return wrong;
  }
  void OverwriteSource() { std::memset(in_.layer(0), 0, kLayers * kBytes); }
  cudaStream_t evict() const { return evict_; }

 private:
  static cudaEvent_t MakeEvent() {
    cudaEvent_t event;
    STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  static void Wait(cudaStream_t stream, cudaEvent_t event) {
    STRATA_EXPECT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  }

  PinnedFloats in_, out_;
  cudaStream_t fetch_, compute_, evict_;
  std::array<cudaEvent_t, kLayers> fetched_, computed_, evicted_;
  float *x_[2], *y_[2];
};

constexpr StreamOrder kOrders[] = {StreamOrder::kProgram, StreamOrder::kLatest,
                                   StreamOrder::kRandom};

class StreamMistakesTest : public testing::TestWithParam<bool> {  // whether as a graph
 protected:
  // One run of the whole from a fresh runtime; the values that came out wrong.
  int Run(Missing missing, StreamOrder order, uint64_t seed = 1) {
    Reset({.stream_order = order, .seed = seed});
    Pipeline pipeline;
    if (GetParam()) {
      EXPECT_EQ(pipeline.RunGraph(missing), cudaSuccess);
    } else {
      pipeline.RunPlain(missing);
    }
    const int wrong = pipeline.WrongValues();
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
    findings_ = TakeFindings();
    return wrong;
  }

  void ExpectFoundInEachOrder(Missing missing, const char* what) {
    for (const StreamOrder order : kOrders) {
      SCOPED_TRACE(static_cast<int>(order));
      Run(missing, order);
      EXPECT_THAT(findings_, Contains(testing::AllOf(Field(&Finding::kind, FindingKind::kRace),
                                                     Field(&Finding::text, HasSubstr(what)))));
    }
  }

  std::vector<Finding> findings_;
};

TEST_P(StreamMistakesTest, NothingMissingIsNoFindingAndRightValues) {
  for (const StreamOrder order : kOrders) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      EXPECT_EQ(Run(Missing::kNothing, order, seed), 0);
      EXPECT_THAT(findings_, IsEmpty());
    }
  }
}

TEST_P(StreamMistakesTest, AFetchThatDoesNotWaitForTheReaderIsFound) {
  ExpectFoundInEachOrder(Missing::kFetchWaitsForCompute, "a copy to the device");
}

TEST_P(StreamMistakesTest, AComputationThatDoesNotWaitForItsInputIsFound) {
  ExpectFoundInEachOrder(Missing::kComputeWaitsForFetch, "ScaleKernel");
}

TEST_P(StreamMistakesTest, AComputationThatDoesNotWaitForTheReaderOfItsOutputIsFound) {
  ExpectFoundInEachOrder(Missing::kComputeWaitsForEvict, "elementwise_kernels.cu:");
}

TEST_P(StreamMistakesTest, AnEvictionThatDoesNotWaitForItsInputIsFound) {
  ExpectFoundInEachOrder(Missing::kEvictWaitsForCompute, "a copy to the host");
}

// What a lucky device does is right without any of the waits: no value would tell.
TEST_P(StreamMistakesTest, InProgramOrderTheValuesAreRightWithoutTheWaits) {
  for (const Missing missing : {Missing::kFetchWaitsForCompute, Missing::kComputeWaitsForFetch,
                                Missing::kComputeWaitsForEvict, Missing::kEvictWaitsForCompute}) {
    EXPECT_EQ(Run(missing, StreamOrder::kProgram), 0);
    EXPECT_THAT(findings_, Not(IsEmpty()));
  }
}

TEST_P(StreamMistakesTest, RandomOrdersGiveWrongValuesWithoutAWait) {
  for (const Missing missing : {Missing::kFetchWaitsForCompute, Missing::kComputeWaitsForFetch,
                                Missing::kEvictWaitsForCompute}) {
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      wrong += Run(missing, StreamOrder::kRandom, seed) != 0;
    }
    EXPECT_GE(wrong, 3) << static_cast<int>(missing);
  }
}

INSTANTIATE_TEST_SUITE_P(Plain, StreamMistakesTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Graph, StreamMistakesTest, testing::Values(true));

TEST(HostMistakesTest, AnUnjoinedStreamEndsTheCaptureWithItsError) {
  Reset();
  Pipeline pipeline;
  EXPECT_EQ(pipeline.RunGraph(Missing::kEndWaitsForEvict), cudaErrorStreamCaptureUnjoined);
}

TEST(HostMistakesTest, AHostThatChangesPinnedMemoryBeforeItIsReadIsFoundInEachOrder) {
  for (const StreamOrder order : kOrders) {
    Reset({.stream_order = order});
    Pipeline pipeline;
    pipeline.Issue(Missing::kNothing);
    pipeline.OverwriteSource();
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(pipeline.evict()));
    EXPECT_GT(pipeline.WrongValues(), kCount);
    EXPECT_THAT(TakeFindings(), Contains(Field(&Finding::kind, FindingKind::kHostWrite)));
  }
}

// The host's reads have no place in a stream: the latest order shows them in the values.
TEST(HostMistakesTest, AHostThatWaitsForTheWrongStreamGetsOldValues) {
  Reset({.stream_order = StreamOrder::kLatest});
  Pipeline pipeline;
  pipeline.RunPlain(Missing::kEndWaitsForEvict);
  EXPECT_GT(pipeline.WrongValues(), kCount);
}

TEST(HostMistakesTest, AHostThatReadsDeviceMemoryDies) {
  Reset();
  float* device = nullptr;
  STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  EXPECT_EXIT(device[3] = 1, testing::KilledBySignal(SIGSEGV), "the host touches device memory");
}

TEST(HostMistakesTest, TheDefaultStreamIsAFinding) {
  Reset();
  float* device = nullptr;
  STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(device, 0, kBytes, nullptr));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_THAT(TakeFindings(),
              testing::ElementsAre(Field(&Finding::kind, FindingKind::kDefaultStream)));
}

}  // namespace
}  // namespace strata::standin
