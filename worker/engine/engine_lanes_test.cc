// Issuing apart from completing: what is under way at once, and what it costs when it is not.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "common/clock.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Access;
using program::OpKind;
using program::Purpose;
using program::Stream;
using program::Tier;

// Begin returns only when all the streams that are expected have begun.
class MeetingSink final : public ProgressSink {
 public:
  explicit MeetingSink(int expected) : expected_(expected) {}
  void Begin(Stream, int, int) override {
    std::unique_lock lock(mutex_);
    ++begun_;
    met_.notify_all();
    met_.wait(lock, [this] { return begun_ >= expected_; });
  }
  void End(Stream, int, int) override {}

 private:
  const int expected_;
  std::mutex mutex_;
  std::condition_variable met_;
  int begun_ = 0;
};

TEST(EngineLanes, CopiesOfBothDirectionsAndHostKernelsAreUnderWayWhileComputeRuns) {
  Workshop shop;
  const int slots[] = {shop.Slot("a"), shop.Slot("b"), shop.Slot("c"),
                       shop.Slot("d"), shop.Slot("e"), shop.Slot("f")};
  shop.assembler.BeginProgram("overlap");
  shop.Double(slots[0]);
  shop.Double(slots[1], Stream::kHost);
  shop.Transfer(slots[2], slots[3], Stream::kFetch);
  shop.Transfer(slots[4], slots[5], Stream::kEvict);
  MeetingSink sink(4);
  shop.progress = &sink;
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (const int slot : slots) Floats(*rank, slot)[0] = 1;
  Floats(*rank, slots[2])[0] = 3;
  Floats(*rank, slots[4])[0] = 4;
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  ASSERT_TRUE(rank->engine->Drain().ok());
  EXPECT_EQ(Floats(*rank, slots[0])[0], 2);
  EXPECT_EQ(Floats(*rank, slots[1])[0], 2);
  EXPECT_EQ(Floats(*rank, slots[3])[0], 3);
  EXPECT_EQ(Floats(*rank, slots[5])[0], 4);
}

TEST(EngineLanes, CollectivesOfTwoStreamsAreInFlightAtOnce) {
  auto world = collectives::LoopbackWorld(2);
  std::vector<ToyRank> ranks;
  for (int r = 0; r < 2; ++r) {
    Workshop shop(2);
    const int a = shop.Slot("a"), b = shop.Slot("b");
    shop.assembler.BeginProgram("both");
    shop.AllGather(a, Stream::kGradients);
    shop.AllGather(b, Stream::kParameters);
    auto rank = shop.Open(r, 2, std::move(world[r]));
    ASSERT_TRUE(rank.ok()) << rank.status();
    ranks.push_back(*std::move(rank));
  }
  ASSERT_TRUE(ranks[0].engine->RunStep(0, 0).ok());
  AwaitPosition(*ranks[0].engine,
                "rank 0 waits at instruction 1 (gather) in group data; "
                "rank 0 waits at instruction 0 (gather) in group data");
  ASSERT_TRUE(ranks[1].engine->RunStep(0, 0).ok());
  for (ToyRank& rank : ranks) ASSERT_TRUE(rank.engine->Drain().ok());
}

TEST(EngineLanes, AStepMayBeLongerThanTheQueues) {
  Workshop shop;
  const int one = shop.Slot("one"), count = shop.Slot("count"), there = shop.Slot("there");
  shop.assembler.BeginProgram("long");
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    // Each on another lane than the one before it, whose result it needs.
    shop.assembler.CallOp(
        {.kind = OpKind::kAdd, .ints = {16}}, Purpose::kForward, "count",
        {Workshop::At(count, Access::kAccumulate), Workshop::At(one, Access::kRead)},
        round % 2 == 0 ? Stream::kHost : Stream::kCompute);
    shop.Transfer(count, there, Stream::kFetch);
    shop.Transfer(there, count, Stream::kEvict);
  }
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  Floats(*rank, one)[0] = 1;
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  ASSERT_TRUE(rank->engine->Drain().ok());
  EXPECT_EQ(Floats(*rank, count)[0], 3.0f * kRounds);
}

// Keeps the first action of a stream from running until it is let go.
class HoldingSink final : public ProgressSink {
 public:
  explicit HoldingSink(Stream held) : held_(held) {}
  void Begin(Stream stream, int, int) override {
    std::unique_lock lock(mutex_);
    if (stream == held_) free_.wait(lock, [this] { return let_go_; });
  }
  void End(Stream, int, int) override {}
  void LetGo() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    free_.notify_all();
  }

 private:
  const Stream held_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool let_go_ = false;
};

// Events are used again within a step; those that the next step waits for are not.
TEST(EngineLanes, WhatTheStepBeforeBeganIsAwaitedThoughEarlierActionsHaveEnded) {
  Workshop shop;
  const int x = shop.Slot("x"), a = shop.Slot("a"), b = shop.Slot("b"), c = shop.Slot("c"),
            d = shop.Slot("d"), y = shop.Slot("y"), z = shop.Slot("z"), e = shop.Slot("e"),
            g = shop.Slot("g");
  shop.assembler.BeginProgram("under the next");
  // Two events, free again before the last transfer is given one.
  shop.Transfer(x, a, Stream::kEvict);
  shop.Transfer(z, e, Stream::kEvict);
  shop.Copy(c, a);
  shop.Copy(g, e);
  shop.Copy(d, b);  // of the step before
  shop.assembler.CallOp({.kind = OpKind::kAdd, .ints = {16}}, Purpose::kForward, "both",
                        {Workshop::At(a, Access::kAccumulate), Workshop::At(e, Access::kRead)});
  shop.Transfer(y, b, Stream::kFetch);
  HoldingSink sink(Stream::kFetch);
  shop.progress = &sink;
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  Floats(*rank, y)[0] = 7;
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  absl::Status second;
  std::atomic<bool> done = false;
  std::thread runner([&] {
    second = rank->engine->RunStep(0, 0);
    done = true;
  });
  const std::string waits = "back until instruction 6 (transfer) has ended";
  while (!done && rank->engine->DescribePosition().find(waits) == std::string::npos) {
    std::this_thread::yield();
  }
  sink.LetGo();
  runner.join();
  ASSERT_TRUE(second.ok()) << second;
  ASSERT_TRUE(rank->engine->Drain().ok());
  EXPECT_EQ(Floats(*rank, d)[0], 7);
}

class SettableClock final : public common::Clock {
 public:
  double Now() const override { return now.load(); }
  std::atomic<double> now{100};
};

// Answers every signal by letting time pass.
class SlowHost final : public HostOps {
 public:
  explicit SlowHost(SettableClock* clock) : clock_(clock) {}
  absl::Status LoadBatch(const BatchRows&) override { return status; }
  absl::Status LoadScalars(double*) override { return status; }
  absl::Status Signal(Purpose, const std::string&) override {
    clock_->now.store(clock_->now.load() + 5);
    return status;
  }

  absl::Status status;

 private:
  SettableClock* clock_;
};

TEST(EngineLanes, TimeThatComputeStandsIsExposedTimeOfWhatItWaitedFor) {
  Workshop shop;
  const int a = shop.Slot("a");
  shop.assembler.BeginProgram("wait");
  shop.Signal("slow", Stream::kFetch, Purpose::kStash);
  shop.Double(a);
  shop.assembler.last().dependencies.push_back({.instruction = 0});
  shop.Signal("late", Stream::kHost, Purpose::kUpdate);
  shop.assembler.last().dependencies.push_back({.instruction = 1});
  SettableClock clock;
  SlowHost host(&clock);
  shop.clock = &clock;
  shop.host = &host;
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    const StepMetrics& metrics = rank->engine->metrics();
    EXPECT_EQ(metrics.exposed[static_cast<int>(Purpose::kStash)], 5);
    EXPECT_EQ(metrics.exposed[static_cast<int>(Purpose::kUpdate)], 5);
    EXPECT_EQ(metrics.exposed_communication(), 10);
    EXPECT_NEAR(metrics.background[static_cast<int>(Purpose::kStash)], 5, 1e-6);
    EXPECT_EQ(metrics.total, 10);
  }
}

TEST(EngineLanes, WhatComputeStandsForIsSharedAmongTheStreamsThatWereAtWork) {
  Workshop shop;
  const int a = shop.Slot("a");
  shop.assembler.BeginProgram("wait");
  shop.Signal("from SSD", Stream::kSsdRead, Purpose::kFetch);
  shop.Signal("from the host", Stream::kFetch, Purpose::kFetch);
  shop.assembler.last().dependencies.push_back({.instruction = 0});
  shop.Signal("another", Stream::kFetch, Purpose::kStash);
  shop.Double(a);
  shop.assembler.last().dependencies.push_back({.instruction = 2});
  SettableClock clock;
  SlowHost host(&clock);
  shop.clock = &clock;
  shop.host = &host;
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    const StepMetrics& metrics = rank->engine->metrics();
    EXPECT_EQ(metrics.exposed[static_cast<int>(Purpose::kStash)], 15);
    EXPECT_EQ(metrics.exposed[static_cast<int>(Purpose::kFetch)], 0);
    EXPECT_EQ(metrics.stalled[static_cast<int>(Stream::kSsdRead)], 5) << step;
    EXPECT_EQ(metrics.stalled[static_cast<int>(Stream::kFetch)], 10) << step;
  }
}

TEST(EngineLanes, TransfersAreCountedByTheStreamThatMovesThem) {
  Workshop shop;
  const int a = shop.Slot("a"), b = shop.Slot("b");
  shop.assembler.BeginProgram("move");
  shop.Transfer(a, b, Stream::kFetch);
  shop.Transfer(b, a, Stream::kEvict);
  shop.assembler.last().dependencies.push_back({.instruction = 0});
  shop.Transfer(a, b, Stream::kFetch);
  shop.assembler.last().dependencies.push_back({.instruction = 1});
  shop.Double(b);
  shop.assembler.last().dependencies.push_back({.instruction = 2});
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    const StepMetrics& metrics = rank->engine->metrics();
    EXPECT_EQ(metrics.moved[static_cast<int>(Stream::kFetch)], 2 * 64);
    EXPECT_EQ(metrics.moved[static_cast<int>(Stream::kEvict)], 64);
    EXPECT_EQ(metrics.moved[static_cast<int>(Stream::kSsdRead)], 0);
  }
}

TEST(EngineLanes, AnErrorOnAnyLaneEndsTheEngineAndNamesTheInstruction) {
  for (const Stream stream : {Stream::kHost, Stream::kFetch, Stream::kEvict, Stream::kTensor}) {
    Workshop shop;
    const int a = shop.Slot("a"), b = shop.Slot("b");
    shop.assembler.BeginProgram("refuse");
    shop.Signal("refuses", stream);
    shop.Copy(b, a);
    shop.assembler.last().dependencies.push_back({.instruction = 0});
    SettableClock clock;
    SlowHost host(&clock);
    host.status = absl::DataLossError("no");
    shop.host = &host;
    auto rank = shop.Open();
    ASSERT_TRUE(rank.ok()) << rank.status();
    Floats(*rank, a)[0] = 1;
    absl::Status status = rank->engine->RunStep(0, 0);
    EXPECT_EQ(status, absl::DataLossError("instruction 0 (refuses): no"));
    EXPECT_EQ(rank->engine->Drain(), status);
    EXPECT_EQ(Floats(*rank, b)[0], 0) << "nothing takes place after a failure";
  }
}

// What a device with memory of its own asks for: the program moves what crosses over.
TEST(EngineLanes, HostOpsOnDeviceMemoryAreRefusedWhereTheHostCannotReachIt) {
  const auto batch = [](Workshop& shop, int tokens, int targets) {
    shop.assembler.CallOp(
        {.kind = OpKind::kLoadBatch, .ints = {2, 3}}, Purpose::kLoad, "load",
        {Workshop::At(tokens, Access::kWrite), Workshop::At(targets, Access::kWrite)});
  };
  const auto on_device = [](Workshop& shop, const char* name) {
    return shop.assembler.AddPersistent({.name = name, .tier = Tier::kDevice, .bytes = 64});
  };
  for (const bool moved : {false, true}) {
    device::CpuDevice strict({.shares_memory = false});
    Workshop shop;
    shop.device = &strict;
    const int device = on_device(shop, "tokens"), result = on_device(shop, "result");
    const int tokens = shop.Slot("loaded tokens"), targets = shop.Slot("targets");
    const int back = shop.Slot("back");
    shop.assembler.BeginProgram("load");
    batch(shop, moved ? tokens : device, targets);
    if (moved) shop.Transfer(tokens, device, Stream::kFetch);
    shop.Copy(result, device);
    shop.Transfer(result, back, Stream::kEvict);
    auto rank = shop.Open();
    if (!moved) {
      EXPECT_TRUE(absl::IsInvalidArgument(rank.status()));
      EXPECT_NE(rank.status().message().find("cannot reach tokens in tier device"),
                absl::string_view::npos)
          << rank.status();
      continue;
    }
    ASSERT_TRUE(rank.ok()) << rank.status();
    ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    ASSERT_TRUE(rank->engine->Drain().ok());
    EXPECT_EQ(std::memcmp(Floats(*rank, back), Floats(*rank, tokens), 24), 0);
  }
}

}  // namespace
}  // namespace strata::worker
