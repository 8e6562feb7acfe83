#include "worker/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "gtest/gtest.h"
#include "program/passes/layout.h"
#include "worker/engine/toy_step.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Access;
using program::CollectiveOp;
using program::DType;
using program::Group;
using program::Mechanism;
using program::Operand;
using program::OpKind;
using program::Purpose;
using program::Scalar;
using program::SlotClass;
using program::Stream;
using program::Tier;

// What a rank ends with after some steps.
struct Outcome {
  std::vector<double> losses, norms;
  std::vector<float> table;
  double validation = 0;
  bool operator==(const Outcome&) const = default;
};

absl::Status RunToy(ToyRank& rank, int steps, Outcome& outcome) {
  for (int step = 0; step < steps; ++step) {
    if (absl::Status status = rank.Train(); !status.ok()) return status;
    outcome.losses.push_back(rank.engine->scalar(Scalar::kLoss));
    outcome.norms.push_back(rank.engine->scalar(Scalar::kGradientNorm));
  }
  if (absl::Status status = rank.engine->RunStep(1, rank.host->applied); !status.ok()) {
    return status;
  }
  outcome.validation = rank.engine->scalar(Scalar::kLoss);
  if (absl::Status status = rank.engine->Drain(); !status.ok()) return status;
  const absl::Span<std::byte> bytes = rank.engine->SlotBytes(rank.table, 0, rank.host->applied);
  outcome.table.resize(bytes.size() / 4);
  std::memcpy(outcome.table.data(), bytes.data(), bytes.size());
  return absl::OkStatus();
}

// All ranks of a world as threads; every rank's outcome.
std::vector<Outcome> RunWorld(int ranks, bool sharded, int steps) {
  auto world = collectives::LoopbackWorld(ranks);
  std::vector<Outcome> outcomes(ranks);
  std::vector<ToyRank> opened(ranks);  // none is destroyed while others need it
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      auto rank = OpenToyRank(r, ranks, sharded, ranks > 1 ? std::move(world[r]) : nullptr);
      ASSERT_TRUE(rank.ok()) << rank.status();
      opened[r] = *std::move(rank);
      const absl::Status status = RunToy(opened[r], steps, outcomes[r]);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(opened[r].host->signals, steps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(Engine, EveryNumberOfRanksAndBothShardingsGiveTheSameBits) {
  const std::vector<Outcome> alone = RunWorld(1, false, 6);
  ASSERT_EQ(alone[0].losses.size(), 6u);
  EXPECT_LT(alone[0].losses.back(), alone[0].losses.front());
  EXPECT_GT(alone[0].norms.front(), 0);
  for (const int ranks : {2, 4}) {
    for (const bool sharded : {false, true}) {
      const std::vector<Outcome> outcomes = RunWorld(ranks, sharded, 6);
      for (int r = 0; r < ranks; ++r) {
        EXPECT_TRUE(outcomes[r] == alone[0])
            << "rank " << r << " of " << ranks << ", sharded " << sharded;
      }
    }
  }
}

TEST(Engine, StreamsFollowTheirDependenciesStepAfterStep) {
  Workshop shop;
  const int a = shop.Slot("a"), b = shop.Slot("b"), c = shop.Slot("c");
  shop.assembler.BeginProgram("round");
  shop.Double(a);                       // compute
  shop.Transfer(a, b, Stream::kFetch);  // a lane of its own
  shop.Transfer(b, c, Stream::kEvict);  // another
  shop.Copy(a, c);                      // compute again
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  Floats(*rank, a)[3] = 1.0f;
  for (int step = 0; step < 20; ++step) ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  ASSERT_TRUE(rank->engine->Drain().ok());
  EXPECT_EQ(Floats(*rank, a)[3], 1048576.0f);
  EXPECT_EQ(Floats(*rank, b)[3], 1048576.0f);
}

TEST(Engine, KernelsMayRunOnOtherStreamsThanCompute) {
  Workshop shop;
  const int a = shop.Slot("a"), b = shop.Slot("b");
  shop.assembler.BeginProgram("copy");
  shop.Copy(b, a, Stream::kEvict);
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  Floats(*rank, a)[0] = 5;
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  ASSERT_TRUE(rank->engine->Drain().ok());
  EXPECT_EQ(Floats(*rank, b)[0], 5);
}

TEST(Engine, PredicatesDecideOnEveryLane) {
  Workshop shop;
  const int a = shop.Slot("a"), b = shop.Slot("b"), c = shop.Slot("c");
  shop.assembler.BeginProgram("conditional");
  shop.Copy(b, a);
  shop.assembler.last().predicate = program::Predicate{Scalar::kApply};
  shop.Transfer(a, c, Stream::kFetch);
  shop.assembler.last().predicate = program::Predicate{Scalar::kApply, true};
  shop.trace.resize(8);
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  auto* scalars = reinterpret_cast<double*>(rank->engine->SlotBytes(0, 0, 0).data());
  for (const bool apply : {false, true}) {
    scalars[static_cast<int>(Scalar::kApply)] = apply ? 1 : 0;
    Floats(*rank, a)[0] = 7;
    Floats(*rank, b)[0] = Floats(*rank, c)[0] = 0;
    ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
    ASSERT_TRUE(rank->engine->Drain().ok());
    EXPECT_EQ(Floats(*rank, b)[0], apply ? 7 : 0);
    EXPECT_EQ(Floats(*rank, c)[0], apply ? 0 : 7);
  }
  // The trace has what did not take place, too.
  std::set<std::pair<int64_t, int>> traced;
  for (uint64_t n = 1; n <= 4; ++n) {
    const TraceRecord& record = shop.trace[n - 1];
    EXPECT_EQ(record.number, n);
    traced.emplace(record.step, record.action);
    if (record.step == record.action) {
      EXPECT_EQ(record.begin, record.end);
    }
  }
  EXPECT_EQ(traced.size(), 4u);
  EXPECT_EQ(shop.trace[4].number, 0u);
}

TEST(Engine, VersionsInTwoCopiesAlternateWithTheUpdatesApplied) {
  Workshop shop;
  const int state = shop.Slot("state", true), other = shop.Slot("other"), old = shop.Slot("old");
  shop.assembler.BeginProgram("speculate");
  shop.Copy(state, other, Stream::kCompute, 1);  // writes s+1 …
  shop.Copy(old, state);                         // … while s is still read
  auto rank = shop.Open();
  ASSERT_TRUE(rank.ok()) << rank.status();
  ASSERT_EQ(rank->engine->programs().placements[state].copies, 2);
  Floats(*rank, state, 0, 0)[0] = 100;
  Floats(*rank, other)[0] = 101;
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  EXPECT_EQ(Floats(*rank, old)[0], 100);
  EXPECT_EQ(Floats(*rank, state, 1, 0)[0], 101);
  EXPECT_EQ(Floats(*rank, state, 0, 1)[0], 101);
  // Not applied: the same version is read again. Applied: the next.
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  EXPECT_EQ(Floats(*rank, old)[0], 100);
  Floats(*rank, other)[0] = 102;
  ASSERT_TRUE(rank->engine->RunStep(0, 1).ok());
  EXPECT_EQ(Floats(*rank, old)[0], 101);
  EXPECT_EQ(Floats(*rank, state, 0, 2)[0], 102);
}

TEST(Engine, CommunicationOfAStepGoesOnUnderTheNext) {
  auto world = collectives::LoopbackWorld(2);
  std::vector<ToyRank> ranks;
  int sum = -1, work = -1;
  for (int r = 0; r < 2; ++r) {
    Workshop shop(2);
    sum = shop.Slot("sum");
    work = shop.Slot("work");
    shop.assembler.BeginProgram("overlap");
    shop.Double(work);
    shop.AllReduce(sum);  // nothing in this step or the next step's start needs it
    auto rank = shop.Open(r, 2, std::move(world[r]));
    ASSERT_TRUE(rank.ok()) << rank.status();
    ranks.push_back(*std::move(rank));
    Floats(ranks[r], sum)[0] = 1;
    Floats(ranks[r], work)[0] = 1;
  }
  // Rank 0 ends two steps while rank 1 has begun none.
  ASSERT_TRUE(ranks[0].engine->RunStep(0, 0).ok());
  ASSERT_TRUE(ranks[0].engine->RunStep(0, 0).ok());
  EXPECT_EQ(Floats(ranks[0], work)[0], 4);
  AwaitPosition(*ranks[0].engine, "rank 0 waits at instruction 1 (reduce) in group data");
  for (int step = 0; step < 2; ++step) ASSERT_TRUE(ranks[1].engine->RunStep(0, 0).ok());
  for (ToyRank& rank : ranks) ASSERT_TRUE(rank.engine->Drain().ok());
  for (ToyRank& rank : ranks) EXPECT_EQ(Floats(rank, sum)[0], 4);
  EXPECT_EQ(ranks[0].engine->DescribePosition(), "rank 0 is between steps");
}

// Two ranks whose compute needs a reduction; only rank 0 is ever run.
ToyRank OpenLonelyRank(std::vector<std::unique_ptr<collectives::Communicator>>& world) {
  Workshop shop(2);
  const int sum = shop.Slot("sum");
  shop.assembler.BeginProgram("wait");
  shop.AllReduce(sum);
  shop.Double(sum);
  auto rank = shop.Open(0, 2, std::move(world[0]));
  EXPECT_TRUE(rank.ok()) << rank.status();
  return *std::move(rank);
}

TEST(Engine, CancelEndsAStepThatWaitsForAPeer) {
  auto world = collectives::LoopbackWorld(2);
  ToyRank rank = OpenLonelyRank(world);
  std::thread canceller([&] {
    AwaitPosition(*rank.engine,
                  "rank 0 holds instruction 1 (double), op 0 (add) back until "
                  "instruction 0 (reduce) has ended");
    AwaitPosition(*rank.engine, "rank 0 waits at instruction 0 (reduce) in group data");
    rank.engine->Cancel(absl::AbortedError("peer 1 is gone"));
    rank.engine->Cancel(absl::InternalError("too late to count"));
  });
  const absl::Status status = rank.engine->RunStep(0, 0);
  canceller.join();
  EXPECT_EQ(status, absl::AbortedError("peer 1 is gone"));
  EXPECT_EQ(rank.engine->RunStep(0, 0), status);
  EXPECT_EQ(rank.engine->Drain(), status);
  EXPECT_EQ(rank.engine->RunCollective({}), status);
}

TEST(Engine, CancellingTheCommunicatorEndsTheStepWithTheInstructionsName) {
  auto world = collectives::LoopbackWorld(2);
  ToyRank rank = OpenLonelyRank(world);
  std::thread canceller([&] {
    AwaitPosition(*rank.engine, "waits at");
    rank.communicator->Cancel(absl::UnavailableError("connection reset"));
  });
  const absl::Status status = rank.engine->RunStep(0, 0);
  canceller.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("instruction 0 (reduce)"), absl::string_view::npos) << status;
}

TEST(Engine, IsDestroyedWhileAPeerIsMissing) {
  auto world = collectives::LoopbackWorld(2);
  Workshop shop(2);
  shop.assembler.BeginProgram("forget");
  shop.AllReduce(shop.Slot("sum"));
  auto rank = shop.Open(0, 2, std::move(world[0]));
  ASSERT_TRUE(rank.ok()) << rank.status();
  ASSERT_TRUE(rank->engine->RunStep(0, 0).ok());
  AwaitPosition(*rank->engine, "waits at");
}

TEST(Engine, HostErrorsEndTheEngineAndNameTheInstruction) {
  auto rank = OpenToyRank(0, 1, false, nullptr);
  ASSERT_TRUE(rank.ok()) << rank.status();
  ASSERT_TRUE(rank->Train().ok());
  rank->host->load_status = absl::DataLossError("corpus.bin: short read");
  const absl::Status status = rank->Train();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("instruction 1 (load batch)"), absl::string_view::npos) << status;
  rank->host->load_status = absl::OkStatus();
  EXPECT_EQ(rank->Train(), status);
}

TEST(Engine, RunsOperationsOfItsOwnerBetweenSteps) {
  auto world = collectives::LoopbackWorld(2);
  std::vector<std::thread> threads;
  std::vector<double> gathered[2];
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const auto group = world[r]->CreateGroup({0, 1});
      ASSERT_TRUE(group.ok());
      auto rank = OpenToyRank(r, 2, true, std::move(world[r]));
      ASSERT_TRUE(rank.ok()) << rank.status();
      gathered[r].resize(2);
      const double mine = 10.0 + r;
      for (int step = 0; step < 3; ++step) {
        ASSERT_TRUE(rank->Train().ok());
        const absl::Status status =
            rank->engine->RunCollective({.kind = collectives::OpKind::kAllGather,
                                         .group = *group,
                                         .type = collectives::DataType::kF64,
                                         .count = 1,
                                         .in = &mine,
                                         .out = gathered[r].data()});
        ASSERT_TRUE(status.ok()) << status;
      }
      ASSERT_TRUE(rank->engine->Drain().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<double>& values : gathered) {
    EXPECT_EQ(values, (std::vector<double>{10, 11}));
  }
}

TEST(Engine, MetricsAndTraceCoverEveryActionOnce) {
  ToyRank rank;
  rank.host = std::make_unique<ToyHost>(0, 1);
  rank.pool = std::make_unique<device::ThreadPool>(1);
  std::vector<TraceRecord> trace(1000);
  EngineOptions options = ToyOptions(1, rank);
  options.trace = absl::MakeSpan(trace);
  auto engine = Engine::Create(MakeToyStep(1, false).set, options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  rank.engine = *std::move(engine);
  ASSERT_TRUE(rank.Train().ok());
  ASSERT_TRUE(rank.Train().ok());
  const StepMetrics& metrics = rank.engine->metrics();
  EXPECT_GT(metrics.compute[static_cast<int>(Purpose::kUpdate)], 0);
  EXPECT_EQ(metrics.compute[static_cast<int>(Purpose::kReduce)], 0);
  EXPECT_EQ(metrics.exposed_communication(), 0);
  double busy = 0;
  for (const double seconds : metrics.compute) busy += seconds;
  EXPECT_LE(busy, metrics.total);
  const int actions = rank.engine->actions(0);
  for (int i = 0; i < 2 * actions; ++i) {
    EXPECT_EQ(trace[i].action, i % actions);
    EXPECT_EQ(trace[i].step, i / actions);
    EXPECT_LE(trace[i].begin, trace[i].end);
    if (i > 0) {
      EXPECT_LE(trace[i - 1].end, trace[i].begin);
    }
  }
  EXPECT_EQ(trace[2 * actions].end, 0);
}

class CountingSink final : public ProgressSink {
 public:
  void Begin(Stream, int, int) override { begun.fetch_add(1, std::memory_order_relaxed); }
  void End(Stream, int, int) override { ended.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<int> begun{0}, ended{0};
};

TEST(Engine, TellsTheProgressSinkOfEveryAction) {
  ToyRank rank;
  rank.host = std::make_unique<ToyHost>(0, 1);
  rank.pool = std::make_unique<device::ThreadPool>(1);
  CountingSink sink;
  EngineOptions options = ToyOptions(1, rank);
  options.progress = &sink;
  bool told = false;
  options.before_arenas = [&] { told = true; };
  auto engine = Engine::Create(MakeToyStep(1, false).set, options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_TRUE(told);
  rank.engine = *std::move(engine);
  ASSERT_TRUE(rank.Train().ok());
  EXPECT_EQ(sink.begun, rank.engine->actions(0));
  EXPECT_EQ(sink.ended, rank.engine->actions(0));
}

TEST(Engine, ArenasAreWhatTheLayoutSays) {
  auto rank = OpenToyRank(0, 1, false, nullptr);
  ASSERT_TRUE(rank.ok());
  EXPECT_EQ(rank->engine->arena_bytes(Tier::kHost), rank->engine->programs().arena(Tier::kHost));
  EXPECT_GT(rank->engine->arena_bytes(Tier::kHost), 0);
  EXPECT_EQ(rank->engine->arena_bytes(Tier::kSsd), 0);
}

TEST(Engine, RefusesProgramsItCannotRun) {
  {
    Workshop shop;  // not laid out
    shop.Slot("a");
    EXPECT_TRUE(absl::IsInvalidArgument(shop.OpenLaidOut(0, 1, nullptr).status()));
  }
  {
    Workshop shop;
    shop.assembler.AddPersistent({.name = "spilled", .tier = Tier::kSsd, .bytes = 64});
    EXPECT_EQ(shop.Open().status().message(),
              "the programs keep bytes on SSD, and no path was given");
  }
  {
    Workshop shop;
    // Memory at no block's address.
    shop.assembler.BeginProgram("from disk");
    const int spilled =
        shop.assembler.AddPersistent({.name = "spilled", .tier = Tier::kSsd, .bytes = 64});
    shop.Transfer(spilled, shop.Slot("b"), Stream::kSsdRead);
    const absl::Status status = shop.Open().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(status.message().find("do not begin at whole blocks"), absl::string_view::npos)
        << status;
  }
  {
    device::CpuDevice strict({.shares_memory = false});
    Workshop shop;  // results where the host cannot read them
    shop.set.slots[0].tier = Tier::kDevice;
    shop.device = &strict;
    EXPECT_TRUE(absl::IsInvalidArgument(shop.Open().status()));
  }
  {
    Workshop shop;
    shop.assembler.BeginProgram("on compute");
    shop.AllReduce(shop.Slot("sum"), Stream::kCompute);
    const absl::Status status = shop.Open().status();
    EXPECT_TRUE(absl::IsUnimplemented(status));
    EXPECT_NE(status.message().find("program on compute, instruction 0 (reduce)"),
              absl::string_view::npos)
        << status;
  }
  {
    Workshop shop(2);  // made for two ranks, run by one
    shop.assembler.BeginProgram("too wide");
    shop.AllReduce(shop.Slot("sum"));
    EXPECT_TRUE(absl::IsInvalidArgument(shop.Open().status()));
  }
  {
    Workshop shop;
    shop.assembler.BeginProgram("forward");
    shop.Copy(shop.Slot("b"), shop.Slot("a"));
    shop.Copy(1, 2, Stream::kEvict);
    ASSERT_TRUE(program::LayOut(shop.set).ok());
    shop.set.programs[0].instructions[0].dependencies.push_back({.instruction = 1});
    EXPECT_TRUE(absl::IsInvalidArgument(shop.OpenLaidOut(0, 1, nullptr).status()));
  }
}

TEST(Engine, RefusesAProgramThatDoesNotExistWithoutHarm) {
  auto rank = OpenToyRank(0, 1, false, nullptr);
  ASSERT_TRUE(rank.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(rank->engine->RunStep(2, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(rank->engine->RunStep(-1, 0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(rank->engine->RunCollective({})));
  EXPECT_TRUE(rank->Train().ok());
}

}  // namespace
}  // namespace strata::worker
