#include "device/cpu_device.h"

#include <atomic>
#include <cstring>
#include <future>
#include <numeric>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace strata::device {
namespace {

// Calls a lambda in stream order; the lambda outlives the call.
template <typename Callable>
HostFunction Calling(Callable& callable, int64_t argument = 0) {
  return {[](void* object, int64_t value) { (*static_cast<Callable*>(object))(value); }, &callable,
          argument};
}

class CpuDeviceTest : public testing::Test {
 protected:
  Stream* Make(Service service) { return *device_.CreateStream(service); }
  std::unique_ptr<Event> MakeEvent() { return *device_.CreateEvent(); }
  void Finish(Stream* stream) {
    auto event = MakeEvent();
    ASSERT_TRUE(stream->Record(*event).ok());
    ASSERT_TRUE(event->Synchronize().ok());
    EXPECT_TRUE(*event->Reached());
  }

  CpuDevice device_;
};

TEST_F(CpuDeviceTest, AStreamKeepsItsOrderBeyondTheLengthOfItsQueue) {
  for (const Service service : {Service::kIssuer, Service::kThread}) {
    Stream* stream = Make(service);
    std::vector<int64_t> seen;
    auto note = [&](int64_t value) { seen.push_back(value); };
    constexpr int64_t kCount = 5 * CpuStream::kCapacity;
    for (int64_t i = 0; i < kCount; ++i) ASSERT_TRUE(stream->Launch(Calling(note, i)).ok());
    Finish(stream);
    std::vector<int64_t> expected(kCount);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(CpuDeviceTest, AnEventThatWasNeverRecordedHoldsNothingUp) {
  Stream* stream = Make(Service::kThread);
  auto event = MakeEvent();
  EXPECT_TRUE(*event->Reached());
  ASSERT_TRUE(stream->Wait(*event).ok());
  Finish(stream);
}

TEST_F(CpuDeviceTest, AWaitIsForTheRecordBeforeItNotForLaterOnes) {
  Stream *first = Make(Service::kThread), *second = Make(Service::kThread);
  auto event = MakeEvent();
  std::promise<void> gate;
  auto open = [gate = gate.get_future().share()](int64_t) { gate.wait(); };
  ASSERT_TRUE(first->Record(*event).ok());
  ASSERT_TRUE(second->Wait(*event).ok());
  ASSERT_TRUE(first->Launch(Calling(open)).ok());
  ASSERT_TRUE(first->Record(*event).ok());  // the same event marks a later place now
  Finish(second);
  EXPECT_FALSE(*event->Reached());
  gate.set_value();
  Finish(first);
}

// Values go round three streams, each handing on what the one before it wrote.
TEST_F(CpuDeviceTest, EventsOrderStreamsRoundAndRound) {
  Stream* streams[] = {Make(Service::kIssuer), Make(Service::kThread), Make(Service::kThread)};
  std::unique_ptr<Event> events[] = {MakeEvent(), MakeEvent(), MakeEvent()};
  int64_t values[3] = {};
  auto step = [&](int64_t at) { values[at] = values[(at + 2) % 3] + 1; };
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    for (int s = 0; s < 3; ++s) {
      ASSERT_TRUE(streams[s]->Wait(*events[(s + 2) % 3]).ok());
      ASSERT_TRUE(streams[s]->Launch(Calling(step, s)).ok());
      ASSERT_TRUE(streams[s]->Record(*events[s]).ok());
    }
  }
  ASSERT_TRUE(events[2]->Synchronize().ok());
  EXPECT_EQ(values[2], 3 * kRounds);
}

TEST_F(CpuDeviceTest, CopiesRunWhileTheIssuingThreadComputes) {
  Stream *compute = Make(Service::kIssuer), *copies = Make(Service::kThread);
  std::vector<char> from(1000, 'x'), to(1000, ' ');
  auto event = MakeEvent();
  // Compute ends only when it sees that the copy, handed over after it, has been made.
  auto busy = [&](int64_t) {
    while (!*event->Reached()) std::this_thread::yield();
  };
  ASSERT_TRUE(compute->Launch(Calling(busy)).ok());
  ASSERT_TRUE(copies->Copy(to.data(), from.data(), 1000).ok());
  ASSERT_TRUE(copies->Record(*event).ok());
  Finish(compute);
  EXPECT_EQ(to, from);
}

TEST_F(CpuDeviceTest, PolledFunctionsOfOneLaneAreUnderWayTogether) {
  Lane lane(device_.group());
  CpuStream* streams[] = {device_.CreateStream(&lane), device_.CreateStream(&lane)};
  std::atomic<int> begun{0};
  struct Task {
    std::atomic<int>* begun;
    bool counted = false;
    // Ends only when both have begun.
    static bool Run(void* self, int64_t) {
      auto& task = *static_cast<Task*>(self);
      if (!std::exchange(task.counted, true)) ++*task.begun;
      return *task.begun == 2;
    }
  };
  Task tasks[] = {{&begun}, {&begun}};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(streams[i]->LaunchPolled({&Task::Run, &tasks[i], 0}).ok());
  }
  lane.Start();
  for (CpuStream* stream : streams) Finish(stream);
  EXPECT_EQ(begun, 2);
}

TEST_F(CpuDeviceTest, MemoryIsZeroedAndDeviceMemoryIsTheHostsUnlessSaidOtherwise) {
  for (const Memory memory : {Memory::kDevice, Memory::kHost}) {
    auto data = device_.Reserve(memory, 8192);
    ASSERT_TRUE(data.ok()) << data.status();
    ASSERT_TRUE(device_.Commit(memory, *data, 8192).ok());
    EXPECT_EQ((*data)[8191], std::byte{0});
    std::memset(*data, 1, 8192);
    device_.Release(memory, *data, 8192);
  }
  EXPECT_TRUE(device_.IsHostAccessible(Memory::kDevice));
  const CpuDevice strict({.shares_memory = false});
  EXPECT_FALSE(strict.IsHostAccessible(Memory::kDevice));
  EXPECT_TRUE(strict.IsHostAccessible(Memory::kHost));
}

TEST(CpuDeviceLinkTest, ACopyOverALimitedLinkTakesItsTimeAndMovesItsBytes) {
  CpuDevice device({.link_rate = 1e6});
  Stream* stream = *device.CreateStream(Service::kThread);
  const std::vector<char> from(20'000, 'x');
  std::vector<char> to(from.size());
  auto event = *device.CreateEvent();
  const common::MonotonicClock clock;
  const double begin = clock.Now();
  ASSERT_TRUE(stream->Copy(to.data(), from.data(), static_cast<int64_t>(from.size())).ok());
  ASSERT_TRUE(stream->Record(*event).ok());
  ASSERT_TRUE(event->Synchronize().ok());
  EXPECT_GE(clock.Now() - begin, 0.02);
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace strata::device
