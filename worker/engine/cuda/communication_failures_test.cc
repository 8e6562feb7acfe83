// A step whose communication failed is none, however soon its streams end: nothing takes what was
// cut off for a sum, and neither RunStep nor Drain returns OK.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/standin/nccl_standin.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using absl::StatusCode;
using program::Stream;
using testing::HasSubstr;

// Whether a stream stands at an operation that another rank has no part in yet.
bool IsHeldUp() { return absl::StrContains(standin::DescribeWaits(), "communicator"); }

// A device whose watch, like any thread but the engine's, is as late as can be: it stands still
// once it has let streams go, until the engine has said what became of the step.
class LateWatch final : public Accelerator {
 public:
  explicit LateWatch(CudaAccelerator* real) : real_(real) {}

  // From now on it stands still for nothing.
  void SetOver() { over_ = true; }
  // It finds no errors.
  void SetBlind() { blind_ = true; }
  int groups() const { return groups_; }

  device::QueueDevice& device() override { return real_->device(); }
  device::UnifiedMemory& unified() override { return real_->unified(); }
  absl::StatusOr<BoundOp> BindOp(const program::Op& op, absl::Span<const BoundOperand> operands,
                                 const OpEnvironment& environment,
                                 const LaunchSite& site) override {
    return real_->BindOp(op, operands, environment, site);
  }
  bool communicates() const override { return true; }
  absl::StatusOr<collectives::GroupId> CreateGroup(absl::Span<const int> ranks) override {
    ++groups_;
    return real_->CreateGroup(ranks);
  }
  absl::StatusOr<BoundOp> BindOperation(const collectives::Operation& operation,
                                        const LaunchSite& site) override {
    return real_->BindOperation(operation, site);
  }
  absl::Status CheckCommunication() override {
    if (IsOthers() && blind_) return absl::OkStatus();
    absl::Status status = real_->CheckCommunication();
    if (!status.ok()) StandStill();
    return status;
  }
  void AbortCommunication(absl::Status status) override {
    real_->AbortCommunication(std::move(status));
    StandStill();
  }
  absl::Status CloseCommunication(absl::Duration at_most) override {
    return real_->CloseCommunication(at_most);
  }
  absl::StatusOr<BoundOp> BindCopy(std::byte* to, const std::byte* from, int64_t bytes,
                                   const LaunchSite& site) override {
    return real_->BindCopy(to, from, bytes, site);
  }

 private:
  bool IsOthers() const { return std::this_thread::get_id() != engine_; }
  void StandStill() const {
    while (IsOthers() && !over_ && !IsHeldUp()) std::this_thread::yield();
  }

  CudaAccelerator* const real_;
  const std::thread::id engine_ = std::this_thread::get_id();
  std::atomic<bool> over_{false}, blind_{false};
  int groups_ = 0;
};

// Notices whether a step came to its signal, and does something there.
class SignalHost final : public HostOps {
 public:
  absl::Status LoadBatch(const BatchRows&) override { return absl::OkStatus(); }
  absl::Status LoadScalars(double*) override { return absl::OkStatus(); }
  absl::Status Signal(program::Purpose, const std::string&) override {
    ++signals;
    if (at_signal) at_signal();
    return absl::OkStatus();
  }

  std::atomic<int> signals{0};
  std::function<void()> at_signal;
};

class CommunicationFailuresTest : public standin::CudaTest {
 protected:
  // Rank 0's, whose other rank forms groups and then does nothing.
  struct Rank {
    LateWatch* watch;
    SignalHost* host;
    Engine* engine;
  };

  static void OnRank(const std::function<void(Workshop&)>& build,
                     const std::function<void(Rank&)>& body) {
    standin::Reset({.device_count = 2});
    auto communicators = collectives::LoopbackWorld(2);
    std::atomic<bool> over{false};
    const auto run = [&](int rank) {
      auto nccl = collectives::NcclCommunicator::Create(
          {.rank = rank,
           .size = 2,
           .device = rank,
           .share = collectives::ShareOver(communicators[rank].get())});
      ASSERT_TRUE(nccl.ok()) << nccl.status();
      auto accelerator = CudaAccelerator::Create(rank, *std::move(nccl));
      ASSERT_TRUE(accelerator.ok()) << accelerator.status();
      LateWatch watch(accelerator->get());
      SignalHost host;
      Workshop shop(2, program::Tier::kDevice);
      shop.host = &host;
      shop.accelerator = &watch;
      shop.assembler.BeginProgram("train");
      build(shop);
      auto opened = shop.Open(rank, 2, std::move(communicators[rank]));
      ASSERT_TRUE(opened.ok()) << opened.status();
      Rank own{&watch, &host, opened->engine.get()};
      if (rank == 0) body(own);
      watch.SetOver();
      over = over || rank == 0;
      while (!over) std::this_thread::yield();
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    EXPECT_THAT(standin::TakeFindings(), testing::IsEmpty());
  }

  // The signal comes when the sum is there.
  static void Sum(Workshop& shop) {
    const int sum = shop.Slot("sum"), home = shop.HostSlot("home");
    shop.AllReduce(sum);
    shop.Transfer(sum, home, Stream::kEvict);
    shop.Signal("summed", Stream::kHost);
    shop.assembler.last().operands = {Workshop::At(home, program::Access::kRead)};
  }

  // The signal comes whatever ranks exchange.
  static void Alone(Workshop& shop) {
    shop.Double(shop.Slot("alone"));
    shop.Signal("alone", Stream::kHost);
  }

  // What a step ends with that waits for the sum when `fail` is called, and how many signals came.
  static std::pair<absl::Status, int> StatusAfter(const std::function<void(Rank&)>& fail) {
    std::pair<absl::Status, int> result;
    OnRank(Sum, [&](Rank& rank) {
      std::thread failing([&] {
        while (!IsHeldUp()) std::this_thread::yield();
        fail(rank);
      });
      result.first = rank.engine->RunStep(0, 0);
      rank.watch->SetOver();
      failing.join();
      result.second = rank.host->signals;
      EXPECT_EQ(rank.engine->RunStep(0, 0), result.first);
      EXPECT_EQ(rank.engine->Drain(), result.first);
    });
    return result;
  }

  static void CutOffAll(const Rank& rank) {
    for (int n = 0; n < rank.watch->groups(); ++n) {
      standin::CutOffCommunicator(0, n, ncclRemoteError);
    }
  }
};

MATCHER_P2(Fails, code, words, "") {
  return arg.code() == code && testing::Value(std::string(arg.message()), HasSubstr(words));
}

TEST_F(CommunicationFailuresTest, ErrorThatTheWatchFinds_IsKnownBeforeStreamsGoOn) {
  const auto [status, signals] =
      StatusAfter([](Rank&) { standin::FailCommunicators(0, ncclRemoteError); });
  EXPECT_THAT(status, Fails(StatusCode::kUnavailable, "remote process exited"));
  EXPECT_EQ(signals, 0);
}

TEST_F(CommunicationFailuresTest, Cancel_IsKnownBeforeStreamsGoOn) {
  const auto [status, signals] = StatusAfter(
      [](Rank& rank) { rank.engine->Cancel(absl::CancelledError("the agent is gone")); });
  EXPECT_THAT(status, Fails(StatusCode::kCancelled, "the agent is gone"));
  EXPECT_EQ(signals, 0);
}

TEST_F(CommunicationFailuresTest, StreamsThatEndByThemselves_AreNoSuccess) {
  const auto [status, signals] = StatusAfter([](Rank& rank) {
    rank.watch->SetBlind();
    CutOffAll(rank);
  });
  EXPECT_THAT(status, Fails(StatusCode::kUnavailable, "remote process exited"));
}

TEST_F(CommunicationFailuresTest, ErrorOfAnyCommunicator_FailsTheStepInWhichItCame) {
  int groups = 1;
  for (int n = 0; n < groups; ++n) {
    OnRank(Alone, [&](Rank& rank) {
      groups = rank.watch->groups();
      rank.watch->SetBlind();
      EXPECT_EQ(rank.engine->RunStep(0, 0), absl::OkStatus());
      rank.host->at_signal = [n] { standin::CutOffCommunicator(0, n, ncclRemoteError); };
      EXPECT_THAT(rank.engine->RunStep(0, 0),
                  Fails(StatusCode::kUnavailable, "the group of ranks 0 1"))
          << n;
      EXPECT_EQ(rank.host->signals, 2);
    });
  }
  EXPECT_GT(groups, 1);
}

// Steps need not wait for what is gathered, but what follows Drain, a checkpoint say, does.
TEST_F(CommunicationFailuresTest, Drain_FailsWithWhatNoStepWaitedFor) {
  const auto build = [](Workshop& shop) {
    shop.AllGather(shop.Slot("gathered"), Stream::kParameters);
    shop.Double(shop.Slot("alone"));
  };
  OnRank(build, [](Rank& rank) {
    rank.watch->SetBlind();
    EXPECT_EQ(rank.engine->RunStep(0, 0), absl::OkStatus());
    CutOffAll(rank);
    EXPECT_THAT(rank.engine->Drain(), Fails(StatusCode::kUnavailable, "remote process exited"));
  });
}

}  // namespace
}  // namespace strata::worker
