#include "device/cuda/cuda_device.h"

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "device/cuda/cuda_status.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::device {
namespace {

constexpr int64_t kBytes = 4096;

template <typename Callable>
HostFunction Calling(Callable& callable, int64_t argument = 0) {
  return {[](void* object, int64_t value) { (*static_cast<Callable*>(object))(value); }, &callable,
          argument};
}

// A device with an arena in each memory.
struct Machine {
  Machine() : device(*CudaDevice::Create(0)) {
    for (const Memory memory : {Memory::kDevice, Memory::kHost}) {
      std::byte*& data = memory == Memory::kDevice ? on_device : on_host;
      data = *device->Reserve(memory, 2 * kBytes);
      EXPECT_TRUE(device->Commit(memory, data, 2 * kBytes).ok());
    }
  }
  ~Machine() {
    device->Release(Memory::kDevice, on_device, 2 * kBytes);
    device->Release(Memory::kHost, on_host, 2 * kBytes);
  }
  QueueStream* Queue() { return *device->CreateQueue(); }
  Stream* Lane() {
    return *device->Adopt(static_cast<CpuStream*>(*device->lanes().CreateStream(Service::kThread)));
  }
  std::unique_ptr<Event> MakeEvent() { return *device->CreateEvent(); }
  void Finish(Stream* stream) {
    auto event = MakeEvent();
    ASSERT_TRUE(stream->Record(*event).ok());
    ASSERT_TRUE(event->Synchronize().ok());
    EXPECT_TRUE(*event->Reached());
  }
  int32_t* host() { return reinterpret_cast<int32_t*>(on_host); }

  std::unique_ptr<CudaDevice> device;
  std::byte *on_device = nullptr, *on_host = nullptr;
};

class CudaDeviceTest : public standin::CudaTest {};

TEST_F(CudaDeviceTest, MemoryIsZeroedAndCopiesGoBothWays) {
  InEachOrder([] {
    Machine machine;
    QueueStream* stream = machine.Queue();
    machine.host()[0] = 7;
    ASSERT_TRUE(stream->Copy(machine.on_host, machine.on_device, 64).ok());
    machine.Finish(stream);
    EXPECT_EQ(machine.host()[0], 0);
    std::iota(machine.host(), machine.host() + kBytes / 4, 1);
    ASSERT_TRUE(stream->Copy(machine.on_device, machine.on_host, kBytes).ok());
    ASSERT_TRUE(stream->Copy(machine.on_device + kBytes, machine.on_device, kBytes).ok());
    ASSERT_TRUE(stream->Copy(machine.on_host + kBytes, machine.on_device + kBytes, kBytes).ok());
    machine.Finish(stream);
    EXPECT_EQ(std::memcmp(machine.on_host, machine.on_host + kBytes, kBytes), 0);
    EXPECT_FALSE(machine.device->IsHostAccessible(Memory::kDevice));
    EXPECT_TRUE(machine.device->IsHostAccessible(Memory::kHost));
  });
}

TEST_F(CudaDeviceTest, HostFunctionsKeepTheirOrderBeyondTheirNumber) {
  InEachOrder([] {
    Machine machine;
    QueueStream* stream = machine.Queue();
    std::vector<int64_t> seen;
    auto note = [&](int64_t value) { seen.push_back(value); };
    for (int64_t i = 0; i < 1000; ++i) ASSERT_TRUE(stream->Launch(Calling(note, i)).ok());
    machine.Finish(stream);
    std::vector<int64_t> expected(1000);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  });
}

TEST_F(CudaDeviceTest, ACountFollowsWhatHasEnded) {
  InEachOrder([] {
    Machine machine;
    QueueStream* stream = machine.Queue();
    ASSERT_TRUE(stream->Count(3).ok());
    ASSERT_TRUE(stream->Count(5).ok());
    machine.Finish(stream);
    EXPECT_EQ(stream->counted(), 5u);
  });
}

// What was captured is done by launches alone, and in their place between events; what it reads is
// what lies there then.
TEST_F(CudaDeviceTest, AGraphRepeatsWhatItsStreamWasHanded) {
  InEachOrder([] {
    Machine machine;
    QueueStream *queue = machine.Queue(), *back = machine.Queue();
    auto copied = machine.MakeEvent();
    ASSERT_TRUE(queue->BeginCapture().ok());
    ASSERT_TRUE(queue->Copy(machine.on_device, machine.on_host, 4).ok());
    ASSERT_TRUE(queue->Copy(machine.on_device + 64, machine.on_device, 4).ok());
    const auto graph = queue->EndCapture();
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (int32_t value = 1; value <= 3; ++value) {
      machine.host()[0] = value;
      ASSERT_TRUE(queue->LaunchGraph(**graph).ok());
      ASSERT_TRUE(queue->Record(*copied).ok());
      ASSERT_TRUE(back->Wait(*copied).ok());
      ASSERT_TRUE(back->Copy(machine.on_host + 64, machine.on_device + 64, 4).ok());
      machine.Finish(back);
      EXPECT_EQ(machine.host()[16], value);
    }
    EXPECT_FALSE(queue->EndCapture().ok());
  });
}

TEST_F(CudaDeviceTest, MarksAreApartByWhatLiesBetweenThem_OnOneQueueOrTwo) {
  InEachOrder([] {
    Machine machine;
    QueueStream *queue = machine.Queue(), *other = machine.Queue();
    auto begin = *machine.device->CreateTimeMark(), between = *machine.device->CreateTimeMark(),
         end = *machine.device->CreateTimeMark();
    auto copied = machine.MakeEvent();
    EXPECT_FALSE(machine.device->SecondsBetween(*begin, *end).ok());  // nothing came there
    ASSERT_TRUE(queue->Mark(*begin).ok());
    ASSERT_TRUE(queue->Copy(machine.on_device, machine.on_host, kBytes).ok());
    ASSERT_TRUE(queue->Mark(*between).ok());
    ASSERT_TRUE(queue->Record(*copied).ok());
    ASSERT_TRUE(other->Wait(*copied).ok());
    ASSERT_TRUE(other->Copy(machine.on_device + kBytes, machine.on_device, kBytes).ok());
    ASSERT_TRUE(other->Mark(*end).ok());
    machine.Finish(other);
    const double first = *machine.device->SecondsBetween(*begin, *between);
    const double whole = *machine.device->SecondsBetween(*begin, *end);
    EXPECT_GT(first, 0);
    EXPECT_GT(whole, first);
  });
}

TEST_F(CudaDeviceTest, AnEventThatWasNeverRecordedHoldsNothingUp) {
  InEachOrder([] {
    Machine machine;
    auto event = machine.MakeEvent();
    EXPECT_TRUE(*event->Reached());
    Stream *queue = machine.Queue(), *lane = machine.Lane();
    ASSERT_TRUE(queue->Wait(*event).ok());
    ASSERT_TRUE(lane->Wait(*event).ok());
    machine.Finish(queue);
    machine.Finish(lane);
  });
}

// A number goes to the device and back, round after round, and a lane adds one in between: queue,
// queue, lane. Nothing waits but streams.
TEST_F(CudaDeviceTest, EventsOrderQueuesAndLanesRoundAndRound) {
  InEachOrder([] {
    Machine machine;
    Stream *up = machine.Queue(), *down = machine.Queue(), *lane = machine.Lane();
    auto added = machine.MakeEvent(), sent = machine.MakeEvent(), back = machine.MakeEvent();
    int32_t* const number = machine.host();
    auto add = [number](int64_t) { ++*number; };
    constexpr int kRounds = 30;
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_TRUE(up->Wait(*added).ok());
      ASSERT_TRUE(up->Copy(machine.on_device, number, 4).ok());
      ASSERT_TRUE(up->Record(*sent).ok());
      ASSERT_TRUE(down->Wait(*sent).ok());
      ASSERT_TRUE(down->Copy(number, machine.on_device, 4).ok());
      ASSERT_TRUE(down->Record(*back).ok());
      ASSERT_TRUE(lane->Wait(*back).ok());
      ASSERT_TRUE(lane->Launch(Calling(add)).ok());
      ASSERT_TRUE(lane->Record(*added).ok());
    }
    ASSERT_TRUE(added->Synchronize().ok());
    EXPECT_EQ(*number, kRounds);
  });
}

// What the first lane has waited for comes before what waits for the second, which waited for the
// first.
TEST_F(CudaDeviceTest, OrderGoesThroughSeveralLanes) {
  InEachOrder([] {
    Machine machine;
    Stream *first = machine.Queue(), *second = machine.Queue();
    Stream *lane = machine.Lane(), *other = machine.Lane();
    auto copied = machine.MakeEvent(), seen = machine.MakeEvent(), passed = machine.MakeEvent();
    machine.host()[0] = 42;
    ASSERT_TRUE(first->Copy(machine.on_device, machine.on_host, 64).ok());
    ASSERT_TRUE(first->Record(*copied).ok());
    std::atomic<int> passes{0};
    auto pass = [&](int64_t) { ++passes; };
    ASSERT_TRUE(lane->Wait(*copied).ok());
    ASSERT_TRUE(lane->Launch(Calling(pass)).ok());
    ASSERT_TRUE(lane->Record(*seen).ok());
    ASSERT_TRUE(other->Wait(*seen).ok());
    ASSERT_TRUE(other->Launch(Calling(pass)).ok());
    ASSERT_TRUE(other->Record(*passed).ok());
    ASSERT_TRUE(second->Wait(*passed).ok());
    ASSERT_TRUE(second->Copy(machine.on_host + 64, machine.on_device, 64).ok());
    machine.Finish(second);
    EXPECT_EQ(machine.host()[16], 42);
    EXPECT_EQ(passes, 2);
  });
}

// A lane stands for ever, a queue behind it, and another lane behind that.
TEST_F(CudaDeviceTest, ADeviceEndsWhateverIsQueued) {
  InEachOrder([] {
    int ran = 0;
    auto run = [&](int64_t) { ++ran; };
    {
      auto device = *CudaDevice::Create(0);
      const auto lane_stream = [&] {
        return static_cast<CpuStream*>(*device->lanes().CreateStream(Service::kThread));
      };
      CpuStream* const stands = lane_stream();
      Stream *lane = *device->Adopt(stands), *other = *device->Adopt(lane_stream());
      Stream* queue = *device->CreateQueue();
      auto event = *device->CreateEvent();
      ASSERT_TRUE(stands->LaunchPolled({[](void*, int64_t) { return false; }, nullptr, 0}).ok());
      ASSERT_TRUE(lane->Record(*event).ok());
      ASSERT_TRUE(queue->Wait(*event).ok());
      ASSERT_TRUE(queue->Launch(Calling(run)).ok());
      ASSERT_TRUE(queue->Record(*event).ok());
      ASSERT_TRUE(other->Wait(*event).ok());
      ASSERT_TRUE(other->Launch(Calling(run)).ok());
      EXPECT_FALSE(*event->Reached());
    }
    EXPECT_EQ(ran, 1);  // the queue's
  });
}

// Arenas whose addresses follow each other are two.
TEST_F(CudaDeviceTest, NeighboursArePinnedEachForItself) {
  InEachOrder([] {
    auto device = *CudaDevice::Create(0);
    std::byte* const both = *device->Reserve(Memory::kHost, 2 * kBytes);
    ASSERT_TRUE(device->Commit(Memory::kHost, both, kBytes).ok());
    const absl::Status second = device->Commit(Memory::kHost, both + kBytes, kBytes);
    EXPECT_TRUE(second.ok()) << second;
    device->Release(Memory::kHost, both + kBytes, kBytes);
    device->Release(Memory::kHost, both, kBytes);
  });
}

TEST_F(CudaDeviceTest, ErrorsHaveCudasNameAndSayWhatToDo) {
  const absl::Status memory = CudaStatus("an arena", cudaErrorMemoryAllocation);
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(memory.message(), testing::HasSubstr("cudaErrorMemoryAllocation"));
  EXPECT_THAT(memory.message(), testing::HasSubstr("nvidia-smi"));
  EXPECT_EQ(CudaStatus("a step", cudaErrorECCUncorrectable).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(CudaStatus("nothing", cudaSuccess).ok());
}

}  // namespace
}  // namespace strata::device
