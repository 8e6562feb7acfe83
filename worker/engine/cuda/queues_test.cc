// Small programs whose streams are queues of a CUDA device and lanes of the host.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "program/passes/layout.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Access;
using program::Purpose;
using program::Stream;
using program::Tier;
using standin::StreamOrder;
using testing::HasSubstr;
using testing::IsEmpty;

// A number that a lane doubles in each step goes to the device and is added there; the sum comes
// back and a lane doubles it, too, and once more to where nobody waits for it.
struct Round {
  Round() : shop(1, Tier::kDevice) {
    number = shop.HostSlot("number");
    result = shop.HostSlot("result");
    log = shop.HostSlot("log");
    fetched = shop.Slot("fetched");
    sum = shop.Slot("sum");
    shop.assembler.BeginProgram("train");
    shop.Double(number, Stream::kHost);
    shop.Transfer(number, fetched, Stream::kFetch);
    shop.assembler.CallOp(
        {.kind = program::OpKind::kAdd, .ints = {16}}, Purpose::kForward, "add",
        {Workshop::At(sum, Access::kAccumulate), Workshop::At(fetched, Access::kRead)},
        Stream::kCompute);
    shop.Transfer(sum, result, Stream::kEvict);
    shop.Double(result, Stream::kHost);
    shop.Transfer(sum, log, Stream::kEvict);
    EXPECT_TRUE(program::LayOut(shop.set).ok());
  }
  Workshop shop;
  int number, result, log, fetched, sum;
};

struct Values {
  float number, result, log, sum;
  bool operator==(const Values&) const = default;
};
constexpr int kSteps = 4;
constexpr Values kExpected = {16, 60, 30, 30};

float First(Engine& engine, int slot) {
  float values[16] = {};
  const absl::Status status = engine.slots().Read(
      slot, 0, 0, 0, absl::MakeSpan(reinterpret_cast<std::byte*>(values), sizeof values));
  EXPECT_TRUE(status.ok()) << status;
  return values[0];
}

// Fresh from the runtime's reset on.
absl::StatusOr<Values> RunRound(Round& round) {
  auto accelerator = CudaAccelerator::Create(0);
  if (!accelerator.ok()) return accelerator.status();
  round.shop.accelerator = accelerator->get();
  auto rank = round.shop.OpenLaidOut(0, 1, nullptr);
  if (!rank.ok()) return rank.status();
  Engine& engine = *rank->engine;
  for (int i = 0; i < 16; ++i) Floats(*rank, round.number)[i] = 1;
  for (int step = 0; step < kSteps; ++step) {
    if (absl::Status status = engine.RunStep(0, 0); !status.ok()) return status;
  }
  if (absl::Status status = engine.Drain(); !status.ok()) return status;
  EXPECT_EQ(engine.DescribePosition(), "rank 0 is between steps");
  return Values{First(engine, round.number), First(engine, round.result), First(engine, round.log),
                First(engine, round.sum)};
}

class QueuesTest : public standin::CudaTest {};

TEST_F(QueuesTest, QueuesAndLanesGiveEachOtherTheirResults) {
  InEachOrder([] {
    Round round;
    const auto values = RunRound(round);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(*values, kExpected);
  });
}

// Each dependency of the program, taken out of it, is found: by the checker between queues, or by
// what comes out where a lane has a part.
TEST_F(QueuesTest, EveryDependencyThatIsLeftOutIsFound) {
  const Round whole;
  int left_out = 0;
  const auto& instructions = whole.shop.set.programs[0].instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (size_t d = 0; d < instructions[i].dependencies.size(); ++d) {
      const program::Dependency dependency = instructions[i].dependencies[d];
      const Stream other = instructions[dependency.instruction].stream;
      // RunStep itself waits for compute and the host.
      if (dependency.steps_back > 0 && other != Stream::kEvict) continue;
      SCOPED_TRACE(absl::StrCat(instructions[i].label, " ", i, " without ", dependency.instruction,
                                "^", dependency.steps_back));
      bool found = false;
      for (uint64_t seed = 0; seed < 6 && !found; ++seed) {
        standin::Reset({.stream_order = seed == 0   ? StreamOrder::kLatest
                                        : seed == 1 ? StreamOrder::kProgram
                                                    : StreamOrder::kRandom,
                        .seed = seed});
        Round round;
        auto& of = round.shop.set.programs[0].instructions[i].dependencies;
        of.erase(of.begin() + static_cast<int64_t>(d));
        const auto values = RunRound(round);
        ASSERT_TRUE(values.ok()) << values.status();
        found = !standin::TakeFindings().empty() || !(*values == kExpected);
      }
      EXPECT_TRUE(found);
      ++left_out;
    }
  }
  EXPECT_GE(left_out, 5);
}

TEST_F(QueuesTest, ADeviceThatFailsEndsTheEngineWithItsError) {
  Round round;
  auto accelerator = *CudaAccelerator::Create(0);
  round.shop.accelerator = accelerator.get();
  auto rank = round.shop.OpenLaidOut(0, 1, nullptr);
  ASSERT_TRUE(rank.ok()) << rank.status();
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  standin::FailOperation(2, cudaErrorECCUncorrectable);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = rank->engine->RunStep(0, 0);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("cudaErrorECCUncorrectable"));
  }
  EXPECT_FALSE(rank->engine->Drain().ok());
}

TEST_F(QueuesTest, ALaunchThatIsRefusedNamesItsInstruction) {
  Round round;
  auto accelerator = *CudaAccelerator::Create(0);
  round.shop.accelerator = accelerator.get();
  auto rank = round.shop.OpenLaidOut(0, 1, nullptr);
  ASSERT_TRUE(rank.ok()) << rank.status();
  standin::FailCall("cudaMemcpyAsync", 2, cudaErrorInvalidValue);
  const absl::Status status = rank->engine->RunStep(0, 0);
  EXPECT_THAT(status.message(), HasSubstr("instruction 3 (transfer)"));
  EXPECT_EQ(rank->engine->RunStep(0, 0), status);
}

// A host that blocks in a signal, until it is told to go on.
class BlockingHost final : public HostOps {
 public:
  absl::Status LoadBatch(const BatchRows&) override { return absl::OkStatus(); }
  absl::Status LoadScalars(double*) override { return absl::OkStatus(); }
  absl::Status Signal(Purpose, const std::string&) override {
    while (!go_on) std::this_thread::yield();
    return absl::OkStatus();
  }
  std::atomic<bool> go_on{false};
};

// Where streams are, as an onlooker is told.
class PlaceSink final : public ProgressSink {
 public:
  PlaceSink() {
    for (std::atomic<int>& action : at) action = -1;
  }
  void Begin(Stream stream, int, int action) override { at[static_cast<int>(stream)] = action; }
  void End(Stream stream, int, int) override { at[static_cast<int>(stream)] = -1; }
  std::array<std::atomic<int>, program::kStreamCount> at;
};

constexpr int kCompute = static_cast<int>(Stream::kCompute);

TEST_F(QueuesTest, PositionsTellWhatAQueueIsHeldBackBy) {
  Workshop shop(1, Tier::kDevice);
  const int number = shop.HostSlot("number"), fetched = shop.Slot("fetched");
  shop.assembler.BeginProgram("train");
  shop.Signal("gate", Stream::kHost);
  shop.assembler.last().operands = {Workshop::At(number, Access::kAccumulate)};
  shop.Transfer(number, fetched, Stream::kFetch);
  shop.Double(fetched);
  auto accelerator = *CudaAccelerator::Create(0);
  BlockingHost host;
  shop.accelerator = accelerator.get();
  shop.host = &host;
  PlaceSink sink;
  shop.progress = &sink;
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  std::string position;
  std::thread onlooker([&] {
    const auto tells = [&](const char* what) { return position.find(what) != std::string::npos; };
    while (!tells("holds instruction 2 (double), op 0 (add) back until") ||
           !tells("runs instruction 0 (gate)") || sink.at[kCompute] < 0) {
      position = rank->engine->DescribePosition();
      std::this_thread::yield();
    }
    host.go_on = true;
  });
  EXPECT_TRUE(rank->engine->RunStep(0, 0).ok());
  EXPECT_TRUE(rank->engine->Drain().ok());  // the step is over with the signal
  onlooker.join();
  EXPECT_THAT(position, HasSubstr("holds instruction 1 (transfer) back until instruction 0"));
  EXPECT_EQ(rank->engine->DescribePosition(), "rank 0 is between steps");
  while (sink.at[kCompute] >= 0) std::this_thread::yield();
}

// What a scalar decides is decided on the device, when its turn has come: here by what a lane
// writes in the same step.
TEST_F(QueuesTest, CopiesTakePlaceWhereTheScalarSaysSo) {
  InEachOrder([] {
    Workshop shop(1, Tier::kDevice);
    const int number = shop.HostSlot("number"), kept = shop.Slot("kept"),
              other = shop.Slot("other");
    shop.assembler.BeginProgram("train");
    shop.Double(number, Stream::kHost);
    shop.assembler.CallOp({.kind = program::OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                          {{.slot = shop.set.scalars,
                            .bytes = program::ScalarOffset(program::Scalar::kLoss),
                            .access = Access::kWrite}},
                          Stream::kHost);
    shop.Transfer(number, kept, Stream::kFetch);
    shop.assembler.last().predicate = {program::Scalar::kApplied};
    shop.Transfer(number, other, Stream::kFetch);
    shop.assembler.last().predicate = {program::Scalar::kApplied, true};
    auto accelerator = *CudaAccelerator::Create(0);
    shop.accelerator = accelerator.get();
    auto rank = shop.Open();
    ASSERT_TRUE(rank.ok()) << rank.status();
    for (int i = 0; i < 16; ++i) Floats(*rank, number)[i] = 1;
    for (const int applied : {1, 0, 1, 0}) {
      rank->host->applied = applied;
      ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    }
    ASSERT_TRUE(rank->engine->Drain().ok());
    EXPECT_EQ(First(*rank->engine, kept), 8);
    EXPECT_EQ(First(*rank->engine, other), 16);
  });
}

TEST_F(QueuesTest, WhatTheDeviceCannotDoIsRefusedWhenItIsBound) {
  auto accelerator = *CudaAccelerator::Create(0);
  const auto open = [&](Workshop& shop) {
    shop.accelerator = accelerator.get();
    return shop.Open().status();
  };
  Workshop decided(1, Tier::kDevice);
  const int slot = decided.Slot("slot");
  decided.assembler.BeginProgram("train");
  decided.Double(slot);
  decided.assembler.last().predicate = {program::Scalar::kApply};
  EXPECT_EQ(open(decided).code(), absl::StatusCode::kUnimplemented);

  Workshop signal(1, Tier::kDevice);
  signal.assembler.BeginProgram("train");
  signal.Signal("gate", Stream::kCompute);
  EXPECT_EQ(open(signal).code(), absl::StatusCode::kUnimplemented);

  Workshop lane(1, Tier::kDevice);
  const int far = lane.Slot("far");
  lane.assembler.BeginProgram("train");
  lane.Double(far, Stream::kHost);
  EXPECT_EQ(open(lane).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::worker
