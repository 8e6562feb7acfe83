// The runtime's own behaviour: memory, streams, events, host functions, graphs, errors.
#include <algorithm>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

auto Is(FindingKind kind) { return Field(&Finding::kind, kind); }

class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(const Options& options) {
    Reset(options);
    for (cudaStream_t* stream : {&a_, &b_}) {
      STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
  }
  static float* Malloc(size_t bytes) {
    void* data = nullptr;
    STRATA_EXPECT_CUDA(cudaMalloc(&data, bytes));
    return static_cast<float*>(data);
  }
  static cudaEvent_t MakeEvent() {
    cudaEvent_t event = nullptr;
    STRATA_EXPECT_CUDA(cudaEventCreate(&event));
    return event;
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
};

// ---- Memory

TEST_F(RuntimeTest, WhatDoesNotFitIsRefusedAndFreedMemoryCountsAgain) {
  Start({.device_bytes = 1 << 20});
  size_t free = 0, total = 0;
  float* const half = Malloc(600 << 10);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 600 << 10), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  STRATA_EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 424u << 10);
  STRATA_EXPECT_CUDA(cudaFree(half));
  EXPECT_EQ(cudaFree(half), cudaErrorInvalidValue);
  STRATA_EXPECT_CUDA(cudaMalloc(&more, 600 << 10));
}

TEST_F(RuntimeTest, MemoryUsedAfterItWasFreedIsOutOfBounds) {
  float* const x = Malloc(512);
  STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 0, 512, a_));
  STRATA_EXPECT_CUDA(cudaFree(x));
  float* const y = Malloc(512);
  Scale(a_, 128, x, y);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kOutOfBounds),
                                             Field(&Finding::text, HasSubstr("which was freed")))));
}

TEST_F(RuntimeTest, MemoryThatNothingWroteIsUninitialised) {
  float* const x = Malloc(512);
  float* const y = Malloc(512);
  Scale(a_, 128, x, y);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kUninitialised)));
}

TEST_F(RuntimeTest, StreamOrderedMemoryBelongsToItsStreamsOrder) {
  void *x = nullptr, *y = nullptr;
  const cudaEvent_t ready = MakeEvent();
  STRATA_EXPECT_CUDA(cudaMallocAsync(&x, 512, a_));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 0, 512, a_));
  STRATA_EXPECT_CUDA(cudaEventRecord(ready, a_));
  STRATA_EXPECT_CUDA(cudaStreamWaitEvent(b_, ready, 0));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 1, 512, b_));
  STRATA_EXPECT_CUDA(cudaFreeAsync(x, b_));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_THAT(TakeFindings(), IsEmpty());
  // Freed on one stream while another still uses it.
  STRATA_EXPECT_CUDA(cudaMallocAsync(&y, 512, a_));
  STRATA_EXPECT_CUDA(cudaEventRecord(ready, a_));
  STRATA_EXPECT_CUDA(cudaStreamWaitEvent(b_, ready, 0));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(y, 1, 512, b_));
  STRATA_EXPECT_CUDA(cudaFreeAsync(y, a_));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_THAT(TakeFindings(),
              Contains(testing::AnyOf(Is(FindingKind::kRace), Is(FindingKind::kOutOfBounds))));
}

TEST_F(RuntimeTest, TheDefaultPoolTakesAttributesAndOthersDoNot) {
  cudaMemPool_t pool = nullptr;
  uint64_t threshold = 1 << 20;
  STRATA_EXPECT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  STRATA_EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_EQ(cudaMemPoolSetAttribute(nullptr, cudaMemPoolAttrReleaseThreshold, &threshold),
            cudaErrorInvalidValue);
}

TEST_F(RuntimeTest, ASynchronousFillWaitsAndIsAFindingAsItUsesStreamZero) {
  DeviceArray<int> x(2, a_);
  STRATA_EXPECT_CUDA(cudaMemset(x.data(), 0, 8));
  EXPECT_THAT(x.ToHost(), ElementsAre(0, 0));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kDefaultStream)));
}

TEST_F(RuntimeTest, StreamOrderedMemoryUsedByAnUnorderedStreamIsARace) {
  for (const StreamOrder order : {StreamOrder::kProgram, StreamOrder::kLatest}) {
    Start({.stream_order = order});
    void* x = nullptr;
    STRATA_EXPECT_CUDA(cudaMallocAsync(&x, 512, a_));
    STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 1, 512, b_));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(b_));
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kRace)));
  }
}

TEST_F(RuntimeTest, PageableMemoryIsReadAtTheCallAndPinnedWhenTheCopyRuns) {
  Start({.stream_order = StreamOrder::kLatest});
  std::vector<int> pageable = {1};
  int* pinned = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)));
  *pinned = 1;
  DeviceArray<int> x(1, a_), y(1, a_);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(x.data(), pageable.data(), 4, cudaMemcpyHostToDevice, a_));
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(y.data(), pinned, 4, cudaMemcpyHostToDevice, a_));
  pageable[0] = *pinned = 2;
  EXPECT_THAT(x.ToHost(), ElementsAre(1));
  EXPECT_THAT(y.ToHost(), ElementsAre(2));
}

TEST_F(RuntimeTest, OperationsMayChangePinnedMemoryBeforeACopyReadsIt) {
  int* pinned = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)));
  *pinned = 1;
  DeviceArray<int> x(std::vector<int>{7}, a_), y(1, a_), z(1, a_);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(pinned, x.data(), 4, cudaMemcpyDeviceToHost, a_));
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(y.data(), pinned, 4, cudaMemcpyHostToDevice, a_));
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(
      a_, [](void* data) { ++*static_cast<int*>(data); }, pinned));
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(z.data(), pinned, 4, cudaMemcpyHostToDevice, a_));
  EXPECT_THAT(y.ToHost(), ElementsAre(7));
  EXPECT_THAT(z.ToHost(), ElementsAre(8));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(RuntimeTest, KernelsReadWhatTheHostWroteToPinnedMemory) {
  float* pinned = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * sizeof(float)));
  for (const float x : {1.F, 2.F}) {
    pinned[0] = x;
    Scale(a_, 1, pinned, pinned + 1);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
    EXPECT_EQ(pinned[1], 2 * x + 1);
  }
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(RuntimeTest, AGraphReadsPinnedMemoryAsItIsAtEachLaunch) {
  int* pinned = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)));
  DeviceArray<int> x(1, b_);
  cudaGraph_t graph;
  cudaGraphExec_t execution;
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(x.data(), pinned, 4, cudaMemcpyHostToDevice, a_));
  STRATA_EXPECT_CUDA(cudaStreamEndCapture(a_, &graph));
  STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
  for (int step = 0; step < 3; ++step) {
    *pinned = step;
    STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, b_));
    EXPECT_THAT(x.ToHost(), ElementsAre(step));
  }
  EXPECT_THAT(TakeFindings(), IsEmpty());
  STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, b_));
  *pinned = 9;
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(b_));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kHostWrite)));
}

TEST_F(RuntimeTest, CopiesKnowWhereMemoryLies) {
  float* const device = Malloc(64);
  float host[16] = {};
  EXPECT_EQ(cudaMemcpyAsync(device, host, 64, cudaMemcpyDeviceToDevice, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, device, 64, cudaMemcpyHostToDevice, a_), cudaErrorInvalidValue);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(device, host, 64, cudaMemcpyDefault, a_));
  cudaPointerAttributes attributes;
  STRATA_EXPECT_CUDA(cudaPointerGetAttributes(&attributes, device));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  STRATA_EXPECT_CUDA(cudaPointerGetAttributes(&attributes, host));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  STRATA_EXPECT_CUDA(cudaHostRegister(host, sizeof host, 0));
  STRATA_EXPECT_CUDA(cudaPointerGetAttributes(&attributes, host));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  STRATA_EXPECT_CUDA(cudaHostUnregister(host));
}

TEST_F(RuntimeTest, ACopyPastTheEndIsOutOfBounds) {
  float* const device = Malloc(64);
  std::vector<float> host(32);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(device, host.data(), 128, cudaMemcpyHostToDevice, a_));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kOutOfBounds)));
}

TEST_F(RuntimeTest, RowsOfAMatrixAreCopiedAlone) {
  const std::vector<int> host = {1, 2, 3, 4, 5, 6};
  DeviceArray<int> device(std::vector<int>(8, 0), a_);
  STRATA_EXPECT_CUDA(
      cudaMemcpy2DAsync(device.data(), 16, host.data(), 12, 8, 2, cudaMemcpyHostToDevice, a_));
  EXPECT_THAT(device.ToHost(), ElementsAre(1, 2, 0, 0, 4, 5, 0, 0));
}

// ---- Launches

TEST_F(RuntimeTest, MoreSharedMemoryThanUsualMustBeAskedFor) {
  DeviceArray<float> out(256, a_);
  WriteSharedDynamic(a_, 256, 100 << 10, out.data());
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(AllowShared(228 << 10), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  STRATA_EXPECT_CUDA(AllowShared(100 << 10));
  WriteSharedDynamic(a_, 256, 100 << 10, out.data());
  STRATA_EXPECT_CUDA(cudaGetLastError());
  EXPECT_EQ(out.ToHost()[0], 255.f);
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(RuntimeTest, ABlockOfTooManyThreadsIsRefused) {
  DeviceArray<float> out(4, a_);
  WriteSharedDynamic(a_, 1025, 8192, out.data());
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  WriteSharedDynamic(a_, 0, 0, out.data());
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(RuntimeTest, SharedMemoryThatTheLaunchDoesNotGiveIsOutOfBounds) {
  DeviceArray<float> out(64, a_);
  WriteSharedDynamic(a_, 64, 63 * sizeof(float), out.data());
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), Contains(AllOf(Is(FindingKind::kOutOfBounds),
                                             Field(&Finding::text, HasSubstr("shared values")))));
}

// ---- Streams and events

TEST_F(RuntimeTest, NothingRunsBeforeTheHostWaits) {
  static int calls = 0;
  calls = 0;
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(
      a_, [](void*) { ++calls; }, nullptr));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(cudaStreamQuery(a_), cudaErrorNotReady);  // makes it go on
  EXPECT_EQ(cudaStreamQuery(a_), cudaSuccess);
  EXPECT_EQ(calls, 1);
  STRATA_EXPECT_CUDA(cudaGetLastError());  // not ready is no error
}

TEST_F(RuntimeTest, AnEventIsReachedAfterWhatCameBeforeIt) {
  static std::vector<int> order;
  order.clear();
  const cudaEvent_t event = MakeEvent();
  int numbers[] = {0, 1, 2};
  const auto note = [](void* number) { order.push_back(*static_cast<int*>(number)); };
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(a_, note, &numbers[0]));
  STRATA_EXPECT_CUDA(cudaEventRecord(event, a_));
  STRATA_EXPECT_CUDA(cudaStreamWaitEvent(b_, event, 0));
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(b_, note, &numbers[1]));
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(a_, note, &numbers[2]));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(b_));
  ASSERT_GE(order.size(), 2u);
  EXPECT_LT(std::find(order.begin(), order.end(), 0), std::find(order.begin(), order.end(), 1));
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST_F(RuntimeTest, TimeBetweenEventsNeedsBothToBeReached) {
  const cudaEvent_t begin = MakeEvent(), end = MakeEvent();
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  STRATA_EXPECT_CUDA(cudaEventRecord(begin, a_));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(Malloc(4), 0, 4, a_));
  STRATA_EXPECT_CUDA(cudaEventRecord(end, a_));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  STRATA_EXPECT_CUDA(cudaEventSynchronize(end));
  STRATA_EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GT(milliseconds, 0);
}

TEST_F(RuntimeTest, AHostFunctionThatCallsTheRuntimeIsRefusedAndFound) {
  static cudaError_t error;
  error = cudaSuccess;
  STRATA_EXPECT_CUDA(cudaLaunchHostFunc(
      a_, [](void*) { error = cudaDeviceSynchronize(); }, nullptr));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_EQ(error, cudaErrorNotPermitted);
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kHostFunction)));
}

TEST_F(RuntimeTest, HandlesThatAreNoneAreRefused) {
  STRATA_EXPECT_CUDA(cudaStreamDestroy(a_));
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorInvalidResourceHandle);
  const cudaEvent_t event = MakeEvent();
  STRATA_EXPECT_CUDA(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventRecord(event, b_), cudaErrorInvalidResourceHandle);
}

// ---- Graphs

TEST_F(RuntimeTest, AGraphRunsWhatWasRecordedAndNothingAtTheCapture) {
  DeviceArray<float> x(std::vector<float>{1, 2, 3}, a_), y(3, a_);
  cudaGraph_t graph;
  cudaGraphExec_t execution;
  size_t nodes = 0;
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  Scale(a_, 3, x.data(), y.data());
  Scale(a_, 3, y.data(), x.data());
  STRATA_EXPECT_CUDA(cudaStreamEndCapture(a_, &graph));
  STRATA_EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 2u);
  EXPECT_THAT(x.ToHost(), ElementsAre(1, 2, 3));
  STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
  STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, b_));
  STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, b_));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(b_));
  EXPECT_THAT(x.ToHost(), ElementsAre(31, 47, 63));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(RuntimeTest, CallsThatACaptureForbidsInvalidateIt) {
  cudaGraph_t graph;
  void* data = nullptr;
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaMalloc(&data, 16), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureInvalidated);
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  STRATA_EXPECT_CUDA(cudaMalloc(&data, 16));
  STRATA_EXPECT_CUDA(cudaStreamEndCapture(a_, &graph));
  const cudaEvent_t event = MakeEvent();
  STRATA_EXPECT_CUDA(cudaEventRecord(event, b_));
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamWaitEvent(a_, event, 0), cudaErrorStreamCaptureIsolation);
}

// ---- Errors

TEST_F(RuntimeTest, AnOperationThatFailsStopsTheDeviceForGood) {
  DeviceArray<float> x(std::vector<float>{1, 2}, a_);
  float* const y = Malloc(8);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  FailOperation(2, cudaErrorIllegalAddress);
  Scale(a_, 2, x.data(), y);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  Scale(a_, 2, x.data(), y);
  STRATA_EXPECT_CUDA(cudaGetLastError());  // a launch returns before it fails
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorIllegalAddress);
  void* data = nullptr;
  EXPECT_EQ(cudaMemsetAsync(y, 0, 4, b_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

TEST_F(RuntimeTest, ACallThatFailsFailsOnce) {
  FailCall("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* data = nullptr;
  STRATA_EXPECT_CUDA(cudaMalloc(&data, 4));
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorMemoryAllocation);
  STRATA_EXPECT_CUDA(cudaMalloc(&data, 4));
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
}

}  // namespace
}  // namespace strata::standin
