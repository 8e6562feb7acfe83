#include "device/cuda/cuda_unified_memory.h"

#include <cstring>

#include "device/cuda/cuda_device.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::device {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class CudaUnifiedMemoryTest : public standin::CudaTest {};

TEST_F(CudaUnifiedMemoryTest, PagesMoveInTheOrderOfTheStream) {
  InEachOrder([] {
    auto device = *CudaDevice::Create(0);
    CudaUnifiedMemory memory(0);
    QueueStream* const queue = *device->CreateQueue();
    auto data = memory.Reserve(3 << 20);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*data) % (2 << 20), 0u);
    std::memset(*data, 1, 3 << 20);
    ASSERT_TRUE(memory.Prefetch(*queue, *data + (1 << 20), 1 << 20, Memory::kDevice).ok());
    ASSERT_TRUE(memory.Prefetch(*queue, *data, 3 << 20, Memory::kHost).ok());
    auto event = *device->CreateEvent();
    ASSERT_TRUE(queue->Record(*event).ok());
    ASSERT_TRUE(event->Synchronize().ok());
    EXPECT_EQ((*data)[(3 << 20) - 1], std::byte{1});
    const standin::PageMoves pages = standin::GetCounters().pages;
    EXPECT_EQ(pages.to_device, (1 << 20) / static_cast<int64_t>(standin::kManagedPage));
    EXPECT_EQ(pages.to_host, pages.to_device);
    memory.Release(*data);
  });
}

TEST_F(CudaUnifiedMemoryTest, ADeviceWithoutItSaysWhy) {
  standin::Reset({.managed_memory = false});
  const auto data = CudaUnifiedMemory(0).Reserve(1 << 20);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(data.status().message(), HasSubstr("concurrentManagedAccess is 0"));
}

TEST_F(CudaUnifiedMemoryTest, AdviceThatFailsLeavesNothingBehind) {
  standin::FailCall("cudaMemAdvise", 1, cudaErrorInvalidValue);
  CudaUnifiedMemory memory(0);
  EXPECT_THAT(memory.Reserve(1 << 20).status().message(), HasSubstr("at home on the host"));
  EXPECT_TRUE(memory.Reserve(1 << 20).ok());
  EXPECT_THAT(standin::TakeFindings(), IsEmpty());
}

}  // namespace
}  // namespace strata::device
