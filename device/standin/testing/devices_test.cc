// Several devices in one process, each with host threads of its own.
#include <thread>
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
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class DevicesTest : public testing::Test {
 protected:
  void SetUp() override { Reset({.device_count = 2, .device_bytes = 1 << 20}); }

  static void OnThread(int device, const std::function<void()>& body) {
    std::thread([&] {
      STRATA_EXPECT_CUDA(cudaSetDevice(device));
      body();
    }).join();
  }
  static cudaStream_t MakeStream() {
    cudaStream_t stream = nullptr;
    STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  static float* Malloc(size_t bytes) {
    void* data = nullptr;
    STRATA_EXPECT_CUDA(cudaMalloc(&data, bytes));
    return static_cast<float*>(data);
  }
};

TEST_F(DevicesTest, TheCurrentDeviceIsTheThreads) {
  int count = 0, device = 0;
  STRATA_EXPECT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  STRATA_EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  std::thread([] {
    int theirs = 1;
    STRATA_EXPECT_CUDA(cudaGetDevice(&theirs));
    EXPECT_EQ(theirs, 0);
  }).join();
  STRATA_EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 1);
}

TEST_F(DevicesTest, EachHasItsMemory) {
  size_t free = 0, total = 0;
  float* const own = Malloc(600 << 10);
  OnThread(1, [&] {
    float* const theirs = Malloc(900 << 10);
    STRATA_EXPECT_CUDA(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, 124u << 10);
    cudaPointerAttributes attributes;
    STRATA_EXPECT_CUDA(cudaPointerGetAttributes(&attributes, theirs));
    EXPECT_EQ(attributes.device, 1);
    STRATA_EXPECT_CUDA(cudaPointerGetAttributes(&attributes, own));
    EXPECT_EQ(attributes.device, 0);
  });
  STRATA_EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 424u << 10);
}

TEST_F(DevicesTest, KernelsRunOnTheirDevicesStreamsAndMemory) {
  cudaStream_t stream = nullptr;
  float *x = nullptr, *y = nullptr;
  OnThread(1, [&] {
    stream = MakeStream();
    x = Malloc(512);
    y = Malloc(512);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 0, 512, stream));
    Scale(stream, 128, x, y);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream));
  });
  EXPECT_THAT(TakeFindings(), IsEmpty());
  Scale(stream, 128, x, y);  // from a thread of device 0
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  const cudaStream_t own = MakeStream();
  Scale(own, 128, x, Malloc(512));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(own));
  EXPECT_THAT(TakeFindings(),
              Contains(AllOf(Field(&Finding::kind, FindingKind::kOutOfBounds),
                             Field(&Finding::text, HasSubstr("another device's")))));
}

TEST_F(DevicesTest, VariablesAreTheDevices) {
  const auto run = [](float first) {
    const cudaStream_t stream = MakeStream();
    SetTable({first, 2, 3, 4}, stream);
    DeviceArray<float> out(8, stream);
    ReadTable(stream, out.data());
    return out.ToHost()[0];
  };
  const auto read = [] {
    const cudaStream_t stream = MakeStream();
    DeviceArray<float> out(8, stream);
    ReadTable(stream, out.data());
    return out.ToHost()[0];
  };
  const float own = run(1);
  OnThread(1, [&] { EXPECT_NE(run(5), own); });
  EXPECT_EQ(read(), own);
}

TEST_F(DevicesTest, AnErrorStaysOnItsDevice) {
  OnThread(1, [] {
    const cudaStream_t stream = MakeStream();
    float* const x = Malloc(512);
    FailOperation(1, cudaErrorECCUncorrectable);
    STRATA_EXPECT_CUDA(cudaMemsetAsync(x, 0, 512, stream));
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorECCUncorrectable);
    EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  });
  const cudaStream_t stream = MakeStream();
  DeviceArray<int> x(std::vector<int>{1, 2}, stream);
  EXPECT_THAT(x.ToHost(), ElementsAre(1, 2));
}

// Waiting orders what the same device is given afterwards, not what another thread's is.
TEST_F(DevicesTest, AWaitOfOneDevicesThread_OrdersNothingForAnothers) {
  float* const shared = [] {
    void* data = nullptr;
    STRATA_EXPECT_CUDA(cudaMallocHost(&data, 512));
    return static_cast<float*>(data);
  }();
  const cudaStream_t stream = MakeStream();
  DeviceArray<float> x(std::vector<float>(128, 1), stream);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(shared, x.data(), 512, cudaMemcpyDeviceToHost, stream));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream));
  const cudaStream_t other = MakeStream();
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(x.data(), shared, 512, cudaMemcpyHostToDevice, other));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_THAT(TakeFindings(), IsEmpty());
  OnThread(1, [&] {
    const cudaStream_t theirs = MakeStream();
    DeviceArray<float> y(128, theirs);
    STRATA_EXPECT_CUDA(cudaMemcpyAsync(y.data(), shared, 512, cudaMemcpyHostToDevice, theirs));
    EXPECT_THAT(y.ToHost(), Each(1));
  });
  EXPECT_THAT(TakeFindings(), ElementsAre(Field(&Finding::kind, FindingKind::kRace)));
}

// A thread may have several devices in turn; and an event orders streams of any.
TEST_F(DevicesTest, AWaitOrdersWhatTheThreadGivesAnotherDevice) {
  const cudaStream_t stream = MakeStream();
  void* shared = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(&shared, 512));
  DeviceArray<float> x(std::vector<float>(128, 1), stream);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(shared, x.data(), 512, cudaMemcpyDeviceToHost, stream));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream));
  STRATA_EXPECT_CUDA(cudaSetDevice(1));
  const cudaStream_t theirs = MakeStream();
  DeviceArray<float> y(128, theirs);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(y.data(), shared, 512, cudaMemcpyHostToDevice, theirs));
  EXPECT_THAT(y.ToHost(), Each(1));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(DevicesTest, AnEventOrdersStreamsOfTwoDevices) {
  const cudaStream_t stream = MakeStream();
  cudaEvent_t event = nullptr;
  void* shared = nullptr;
  STRATA_EXPECT_CUDA(cudaMallocHost(&shared, 512));
  DeviceArray<float> x(std::vector<float>(128, 1), stream);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(shared, x.data(), 512, cudaMemcpyDeviceToHost, stream));
  STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  STRATA_EXPECT_CUDA(cudaEventRecord(event, stream));
  OnThread(1, [&] {
    const cudaStream_t theirs = MakeStream();
    DeviceArray<float> y(128, theirs);
    STRATA_EXPECT_CUDA(cudaStreamWaitEvent(theirs, event, 0));
    STRATA_EXPECT_CUDA(cudaMemcpyAsync(y.data(), shared, 512, cudaMemcpyHostToDevice, theirs));
    EXPECT_THAT(y.ToHost(), Each(1));
  });
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

}  // namespace
}  // namespace strata::standin
