// Mistakes of the executor: each call that orders streams, left out, and each of a table of others,
// is found in one run, in whatever order things ran, and where it is told.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/cuda/cuda_stream.h"
#include "device/standin/order.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "program/passes/layout.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/order_watch.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Access;
using program::Purpose;
using program::Stream;
using standin::Piece;
using standin::StreamOrder;
using testing::HasSubstr;

constexpr StreamOrder kOrders[] = {StreamOrder::kProgram, StreamOrder::kLatest,
                                   StreamOrder::kRandom};
constexpr int kSteps = 4, kWrong = 2;  // the step with the mistake: graphs are there
constexpr int kLeast = 2;              // actions that make a graph

// Two numbers that lanes double in each step go to the device, one after the other through one
// slot, and are added to a sum there, which is doubled before, between and after; it comes back,
// where a lane doubles it, and where a scalar says so it is kept.
struct Line {
  enum Action {
    kOpen,
    kOpenAgain,
    kFirst,
    kFetchFirst,
    kAddFirst,
    kBetween,
    kBetweenAgain,
    kSecond,
    kFetchSecond,
    kAddSecond,
    kClose,
    kCloseAgain,
    kScalars,
    kEvict,
    kResult,
    kKeep,
  };

  Line() : shop(1, program::Tier::kDevice) {
    const int first = shop.HostSlot("first"), second = shop.HostSlot("second");
    const int result = shop.HostSlot("result"), kept = shop.HostSlot("kept");
    const int fetched = shop.Slot("fetched"), sum = shop.Slot("sum");
    shop.assembler.BeginProgram("train");
    for (const int number : {first, second}) {
      for (int i = 0; i < 2; ++i) shop.Double(sum);
      shop.Double(number, Stream::kHost);
      shop.Transfer(number, fetched, Stream::kFetch);
      shop.assembler.CallOp(
          {.kind = program::OpKind::kAdd, .ints = {16}}, Purpose::kForward, "add",
          {Workshop::At(sum, Access::kAccumulate), Workshop::At(fetched, Access::kRead)},
          Stream::kCompute);
    }
    for (int i = 0; i < 2; ++i) shop.Double(sum);
    shop.assembler.CallOp({.kind = program::OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                          {{.slot = shop.set.scalars,
                            .bytes = program::ScalarOffset(program::Scalar::kLoss),
                            .access = Access::kWrite}},
                          Stream::kHost);
    shop.Transfer(sum, result, Stream::kEvict);
    shop.Double(result, Stream::kHost);
    shop.Transfer(sum, kept, Stream::kEvict);
    shop.assembler.last().predicate = {program::Scalar::kApplied};
    EXPECT_TRUE(program::LayOut(shop.set).ok());
  }
  Workshop shop;
};

// What is planted when an action of a step is about to be issued.
struct Mistake {
  const char* what;
  int action;
  std::function<void(cudaStream_t fetch, cudaStream_t compute)> plant;
  std::vector<int> told;  // actions that a race's message names
  int step = kWrong;
};

// A device that copies more than it is told.
class LongCopies final : public Accelerator {
 public:
  explicit LongCopies(CudaAccelerator* real) : real_(real) {}
  device::QueueDevice& device() override { return real_->device(); }
  device::UnifiedMemory& unified() override { return real_->unified(); }
  absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                                 const OpEnvironment& environment,
                                 const LaunchSite& site) override {
    return real_->BindOp(op, operands, environment, site);
  }
  bool communicates() const override { return false; }
  absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int> ranks) override {
    return real_->CreateGroup(ranks);
  }
  absl::StatusOr<BoundOp> BindOperation(const collectives::Operation& operation,
                                        const LaunchSite& site) override {
    return real_->BindOperation(operation, site);
  }
  absl::Status CheckCommunication() override { return absl::OkStatus(); }
  void AbortCommunication(absl::Status) override {}
  absl::Status CloseCommunication(absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<BoundOp> BindCopy(std::byte* to, const std::byte* from, int64_t bytes,
                                   const LaunchSite& site) override {
    constexpr int64_t kPages = 1 << 16;
    return real_->BindCopy(to, from, bytes + kPages, site);
  }

 private:
  CudaAccelerator* const real_;
};

struct Options {
  StreamOrder order = StreamOrder::kProgram;
  int graph_actions = 0;
  bool long_copies = false;
};

// A run of the line with something planted.
class LineRun {
 public:
  explicit LineRun(const Options& options) : options_(options) {
    standin::Reset({.stream_order = options.order, .patience_seconds = 0.3});
    watch.before = [this](const IssuedAction& what, device::Stream& stream) {
      if (auto* queue = dynamic_cast<device::CudaStream*>(&stream); queue != nullptr) {
        if (what.action == Line::kFetchFirst) fetch_ = queue->handle();
        if (what.action == Line::kAddFirst) compute_ = queue->handle();
      }
      if (mistake != nullptr && what.action == mistake->action && what.step == mistake->step) {
        mistake->plant(fetch_, compute_);
      }
    };
  }

  void Go() {
    Line line;
    auto accelerator = *CudaAccelerator::Create(0);
    accelerator->set_graph_actions(options_.graph_actions);
    LongCopies long_copies(accelerator.get());
    line.shop.accelerator = accelerator.get();
    if (options_.long_copies) line.shop.accelerator = &long_copies;
    line.shop.observer = &watch;
    if (before_memory) before_memory();
    auto rank = line.shop.OpenLaidOut(0, 1, nullptr);
    ASSERT_TRUE(rank.ok()) << rank.status();
    for (int step = 0; step < kSteps; ++step) {
      rank->host->applied = step;  // decides whether the sum is kept
      if (before_step) before_step(step);
      if (!rank->engine->RunStep(0, 0).ok()) break;  // by a deadlock
    }
    if (before_step) before_step(kSteps);
    static_cast<void>(rank->engine->Drain());
    rank->engine.reset();
    for (const standin::Finding& finding : standin::TakeFindings()) found.push_back(finding.text);
    for (Piece& piece : standin::TakePieces()) {
      std::vector<Piece>& of = pieces_[{piece.label, piece.turn}];
      of.push_back(std::move(piece));
    }
  }

  // Pairs of work that use the same memory, one of them to write, and that the calls order.
  std::set<std::string> OrderedPairs() {
    std::set<std::string> ordered;
    const int actions = watch.actions(0);
    for (int a = 0; a < actions; ++a) {
      for (int b = 0; b < actions; ++b) {
        if (!Collide(a, b)) continue;
        for (int step = 0; step < kSteps; ++step) {
          for (int other = step; other < kSteps; ++other) {
            if (a == b && step == other) continue;
            if (AreOrdered(a, step, b, other)) {
              ordered.insert(absl::StrCat(LabelOf(a), " | ", LabelOf(b), " | ", step, " ", other));
            }
          }
        }
      }
    }
    return ordered;
  }
  std::string LabelOf(int action) const { return watch.LabelOf(0, action); }

  OrderWatch watch;
  const Mistake* mistake = nullptr;
  std::function<void(int step)> before_step;
  std::function<void()> before_memory;  // is there
  std::vector<std::string> found;

 private:
  bool Collide(int a, int b) const {
    for (const BoundAccess& x : watch.AccessesOf(0, a, 0)) {
      for (const BoundAccess& y : watch.AccessesOf(0, b, 0)) {
        const bool meet = x.data < y.data + y.bytes && y.data < x.data + x.bytes;
        if (meet && (x.writes || y.writes)) return true;
      }
    }
    return false;
  }
  bool AreOrdered(int a, int step, int b, int other) {
    const auto& first = pieces_[{LabelOf(a), step}];
    const auto& second = pieces_[{LabelOf(b), other}];
    if (first.empty() || second.empty()) return false;
    return std::all_of(first.begin(), first.end(), [&](const Piece& x) {
      return std::all_of(second.begin(), second.end(),
                         [&](const Piece& y) { return !standin::AreConcurrent(x, y); });
    });
  }

  const Options options_;
  cudaStream_t fetch_ = nullptr, compute_ = nullptr;
  std::map<std::pair<std::string, int64_t>, std::vector<Piece>> pieces_;
};

class MistakesTest : public testing::TestWithParam<int> {};  // actions that make a graph

TEST_P(MistakesTest, NothingPlantedIsNoFinding) {
  for (const StreamOrder order : kOrders) {
    LineRun run({.order = order, .graph_actions = GetParam()});
    run.Go();
    EXPECT_THAT(run.found, testing::IsEmpty());
  }
}

// The calls of a step, left out one after the other. Where a pair of actions that share memory is
// not in order any more, that is found and told by name; where all are, nothing is.
TEST_P(MistakesTest, EachCallThatOrdersStreamsIsNeededOrImplied) {
  const Options options{.graph_actions = GetParam()};
  // The host, which waits for compute and its own stream, waits for nothing that others do not.
  const std::pair<const char*, int> calls[] = {{"cudaEventRecord", 8},
                                               {"cudaStreamWaitEvent", 8},
                                               {"cuStreamWaitValue32", 3},
                                               {"cudaEventSynchronize", 0}};
  for (const auto& [name, least] : calls) {
    const std::string call = name;
    int64_t begin = 0, end = 0;
    LineRun whole(options);
    whole.before_step = [&](int step) {
      if (step == kWrong) begin = standin::CallsOf(call);
      if (step == kWrong + 1) end = standin::CallsOf(call);
    };
    whole.Go();
    const std::set<std::string> expected = whole.OrderedPairs();
    ASSERT_FALSE(expected.empty());
    int needed = 0;
    for (int64_t n = 1; n <= end - begin; ++n) {
      SCOPED_TRACE(absl::StrCat(call, " ", n, " of ", end - begin));
      LineRun run(options);
      run.before_step = [&](int step) {
        if (step == kWrong) standin::LeaveOutCall(call, n);
      };
      run.Go();
      const std::set<std::string> ordered = run.OrderedPairs();
      std::vector<std::string> lost;
      std::set_difference(expected.begin(), expected.end(), ordered.begin(), ordered.end(),
                          std::back_inserter(lost));
      if (lost.empty()) {
        EXPECT_THAT(run.found, testing::IsEmpty());
        continue;
      }
      ++needed;
      const bool told = std::any_of(run.found.begin(), run.found.end(), [&](const auto& text) {
        return std::any_of(lost.begin(), lost.end(), [&](const std::string& pair) {
          const std::vector<std::string> labels = absl::StrSplit(pair, " | ");
          return absl::StrContains(text, labels[0]) && absl::StrContains(text, labels[1]);
        });
      });
      EXPECT_TRUE(told) << "lost " << lost[0] << ", found " << testing::PrintToString(run.found);
    }
    EXPECT_GE(needed, least);
  }
}

const std::vector<Mistake>& Mistakes() {
  using standin::LeaveOutCall;
  using standin::MoveCall;
  using L = Line;
  const auto without = [](const char* call, int count = 1) {
    return [call, count](cudaStream_t, cudaStream_t) { LeaveOutCall(call, count); };
  };
  static const auto* const mistakes = new std::vector<Mistake>{
      {"a copy's event is not recorded",
       L::kFetchFirst,
       without("cudaEventRecord"),
       {L::kFetchFirst, L::kAddFirst}},
      {"compute does not wait for a copy",
       L::kFetchFirst,
       without("cudaStreamWaitEvent"),
       {L::kFetchFirst, L::kAddFirst}},
      {"a slot is used again too early",
       L::kAddFirst,
       without("cudaEventRecord"),
       {L::kAddFirst, L::kFetchSecond}},
      {"a kernel goes to another stream",
       L::kAddFirst,
       [](cudaStream_t fetch, cudaStream_t) { MoveCall("cudaLaunchKernel", 1, fetch); },
       {L::kAddFirst}},
      {"a copy goes to another stream",
       L::kFetchFirst,
       [](cudaStream_t, cudaStream_t compute) { MoveCall("cudaMemcpyAsync", 1, compute); },
       {L::kFetchFirst}},
      {"a lane reads what a copy has yet to bring",
       L::kEvict,
       without("cudaStreamWaitEvent"),
       {L::kEvict, L::kResult}},
      {"a copy does not wait for a lane's write",
       L::kFirst,
       without("cuStreamWaitValue32"),
       {L::kFirst, L::kFetchFirst}},
      {"a scalar decides before it is written",
       L::kScalars,
       without("cuStreamWaitValue32"),
       {L::kScalars, L::kKeep}},
      {"the next step does not wait for this one's copy",
       L::kKeep,
       without("cudaEventRecord"),
       {L::kKeep}},
      {"a graph is launched without its wait",
       L::kKeep,
       without("cudaStreamWaitEvent"),
       {L::kKeep},
       kWrong - 1},
      {"a graph's end is not told", L::kCloseAgain, without("cudaEventRecord"), {L::kEvict}},
      {"a graph lacks a kernel, which ran elsewhere when it was captured",
       L::kClose,
       [](cudaStream_t fetch, cudaStream_t) { MoveCall("cudaLaunchKernel", 1, fetch); },
       {L::kClose},
       kWrong - 1},
  };
  return *mistakes;
}

TEST_P(MistakesTest, EachIsFoundInEachOrderAndToldByName) {
  for (const Mistake& mistake : Mistakes()) {
    for (const StreamOrder order : kOrders) {
      SCOPED_TRACE(absl::StrCat(mistake.what, ", order ", static_cast<int>(order)));
      LineRun run({.order = order, .graph_actions = GetParam()});
      run.mistake = &mistake;
      run.Go();
      EXPECT_TRUE(std::any_of(run.found.begin(), run.found.end(), [&](const std::string& text) {
        return absl::StartsWith(text, "race") &&
               std::all_of(mistake.told.begin(), mistake.told.end(), [&](int action) {
                 return absl::StrContains(text, run.LabelOf(action));
               });
      })) << testing::PrintToString(run.found);
    }
  }
}

TEST_P(MistakesTest, ACopyThatIsTooLongIsOutOfBounds) {
  LineRun run({.graph_actions = GetParam(), .long_copies = true});
  run.Go();
  EXPECT_THAT(run.found, testing::Contains(testing::AllOf(testing::StartsWith("out of bounds"),
                                                          HasSubstr(run.LabelOf(Line::kKeep)))));
}

TEST_P(MistakesTest, MemoryThatWasNotZeroedIsNeverWritten) {
  LineRun run({.graph_actions = GetParam()});
  run.before_memory = [] { standin::LeaveOutCall("cudaMemsetAsync", 1); };
  run.Go();
  EXPECT_THAT(run.found, testing::Contains(testing::AllOf(testing::StartsWith("uninitialised"),
                                                          HasSubstr(run.LabelOf(Line::kOpen)))));
}

INSTANTIATE_TEST_SUITE_P(OneByOne, MistakesTest, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(AsGraphs, MistakesTest, testing::Values(kLeast));

}  // namespace
}  // namespace strata::worker
