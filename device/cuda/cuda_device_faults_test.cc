// Devices that fail: every later call says so, with the error that came first.
#include "device/cuda/cuda_device.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::device {
namespace {

using testing::HasSubstr;

class CudaDeviceFaultsTest : public standin::CudaTest {};

TEST_F(CudaDeviceFaultsTest, ThereIsNoSuchDevice) {
  const auto device = CudaDevice::Create(3);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(device.status().message(), HasSubstr("CUDA device 3: cudaErrorInvalidDevice"));
}

TEST_F(CudaDeviceFaultsTest, MemoryRunsOut) {
  standin::Reset({.device_bytes = 1 << 20});
  auto device = *CudaDevice::Create(0);
  const auto arena = device->Reserve(Memory::kDevice, 2 << 20);
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(arena.status().message(), HasSubstr("2097152 bytes"));
}

TEST_F(CudaDeviceFaultsTest, AnErrorStays) {
  auto device = *CudaDevice::Create(0);
  std::byte* const data = *device->Reserve(Memory::kDevice, 4096);
  QueueStream* const queue = *device->CreateQueue();
  auto event = *device->CreateEvent();
  standin::FailOperation(1, cudaErrorECCUncorrectable);
  ASSERT_TRUE(queue->Copy(data, data + 64, 64).ok());  // told when it runs
  ASSERT_TRUE(queue->Record(*event).ok());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = event->Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("cudaErrorECCUncorrectable"));
    EXPECT_EQ(queue->Copy(data, data + 64, 64).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(event->Reached().status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(CudaDeviceFaultsTest, AValueThatNobodyWritesIsFound) {
  standin::Reset({.patience_seconds = 0.3});
  auto device = *CudaDevice::Create(0);
  auto* const lane = static_cast<CpuStream*>(*device->lanes().CreateStream(Service::kThread));
  Stream* const stream = *device->Adopt(lane);
  auto event = *device->CreateEvent();
  ASSERT_TRUE(lane->LaunchPolled({[](void*, int64_t) { return false; }, nullptr, 0}).ok());
  ASSERT_TRUE(stream->Record(*event).ok());
  EXPECT_EQ(event->Synchronize().code(), absl::StatusCode::kInternal);
  const auto findings = standin::TakeFindings();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, standin::FindingKind::kDeadlock);
}

}  // namespace
}  // namespace strata::device
