// What an epoch's agent says again to a controller that may have missed it.
#include "worker/agent/logic/held_epoch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

// A process that lives and says what the test lets it say.
class SpokenTrainer final : public Trainer {
 public:
  void Tell(const v1::TrainerEvent& event) { listener()->OnEvent(place(), event); }

  int64_t pid() const override { return 1; }
  uint64_t start_time() const override { return 1; }
  bool connected() const override { return true; }
  void Send(const v1::TrainerCommand&) override {}
  void Detach() override {}
  void Hang() override {}
  void Kill() override { killed_ = true; }
  bool killed() const override { return killed_; }
  void LetGo() override {}
  bool reaped() const override { return false; }
  std::string DescribeEnd() const override { return ""; }
  bool died_of_signal() const override { return false; }
  std::optional<v1::Ended> Outcome() override { return std::nullopt; }
  bool IsStopped() const override { return false; }
  bool IsInUninterruptibleSleep() const override { return false; }
  const ProgressView* progress() override { return nullptr; }
  bool progress_unknown() const override { return true; }

 private:
  bool killed_ = false;
};

// A machine on which that process was found again.
class OneTrainerHost final : public AgentHost, public EpochHost {
 public:
  std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch&) override {
    auto host = std::make_unique<OneTrainerHost>();
    host->found_ = &trainer;
    return host;
  }
  absl::Status SetMembership(const v1::AgentMembership&) override { return absl::OkStatus(); }
  void Send(uint64_t, const v1::AgentMessage&) override {}
  void EndSession(uint64_t) override {}
  void Log(const std::string&) override {}

  std::optional<absl::Status> Open() override { return absl::OkStatus(); }
  void Unlock() override {}
  absl::StatusOr<std::unique_ptr<Trainer>> StartPlanner() override {
    return absl::UnimplementedError("nothing is started here");
  }
  absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartRanks() override {
    return absl::UnimplementedError("nothing is started here");
  }
  std::unique_ptr<Trainer> FindAgain(const v1::HeldEpochRecord::Trainer&) override {
    auto again = std::make_unique<SpokenTrainer>();
    *found_ = again.get();
    return again;
  }
  MachineRoom Room() override { return {}; }
  absl::Status SaveRecord(const v1::HeldEpochRecord&) override { return absl::OkStatus(); }
  void RemoveRecord(const v1::HeldEpochRecord&) override {}
  std::optional<absl::StatusOr<OpenedRecords>> OpenRecords(int64_t) override {
    return absl::UnimplementedError("another node publishes");
  }
  std::vector<v1::LogLine> ReadLogs(size_t, bool) override { return {}; }

  SpokenTrainer* trainer = nullptr;

 private:
  SpokenTrainer** found_ = nullptr;
};

// Rank 1 of two, which trains.
class HeldEpochTest : public ::testing::Test {
 protected:
  HeldEpochTest() {
    environment_.host = &host_;
    environment_.clock = &clock_;
    environment_.connected_since = 0;
    environment_.say = [this](const v1::AgentMessage& message) { said_.push_back(message); };
    v1::HeldEpochRecord record;
    v1::PrepareEpoch& prepare = *record.mutable_prepare();
    prepare.mutable_epoch()->set_job("jobs/a");
    prepare.mutable_epoch()->set_epoch(3);
    prepare.mutable_spec()->mutable_train()->set_steps(200);
    prepare.set_ranks(2);
    prepare.add_own(1);
    prepare.add_devices(0);
    record.add_trainers()->set_rank(1);
    record.set_started(true);
    record.set_running(true);
    epoch_ = HeldEpoch::Adopt(&environment_, record);
    epoch_->OnAttached(1);
    v1::TrainerEvent running;
    running.mutable_running();
    Tell(running);
  }
  void Tell(v1::TrainerEvent event) {
    event.set_sequence(++sequence_);
    host_.trainer->Tell(event);
  }
  void StopAt(int64_t step) {
    v1::StopEpoch stop;
    stop.set_checkpoint(true);
    epoch_->OnStop(stop);
    v1::TrainerEvent stopping;
    stopping.mutable_stopping()->set_step(step);
    Tell(stopping);
  }
  // Steps of the EpochStopping that are said to a new session.
  std::vector<int64_t> StoppingSaidAgain() {
    epoch_->OnDisconnect();
    said_.clear();
    epoch_->SayAgain();
    std::vector<int64_t> steps;
    for (const v1::AgentMessage& message : said_) {
      if (message.has_stopping()) steps.push_back(message.stopping().step());
    }
    return steps;
  }

  common::ManualClock clock_;
  OneTrainerHost host_;
  EpochEnvironment environment_;
  std::vector<v1::AgentMessage> said_;
  std::unique_ptr<HeldEpoch> epoch_;
  uint64_t sequence_ = 0;
};

TEST_F(HeldEpochTest, AStoppingStepIsSaidAgainAndOnceItIsDecidedTheLastOne) {
  EXPECT_TRUE(StoppingSaidAgain().empty());
  StopAt(41);
  EXPECT_EQ(StoppingSaidAgain(), std::vector<int64_t>{41});
  epoch_->OnStopAfter(43);
  EXPECT_EQ(StoppingSaidAgain(), std::vector<int64_t>{43});
}

TEST_F(HeldEpochTest, WhileItsControllerIsAwayAnOrderlyStopIsNotGivenUp) {
  StopAt(41);
  environment_.connected_since = -1;
  clock_.Advance(600);
  epoch_->Tick();
  environment_.connected_since = clock_.Now();
  EXPECT_EQ(StoppingSaidAgain(), std::vector<int64_t>{41});
  clock_.Advance(59);
  epoch_->Tick();
  EXPECT_FALSE(host_.trainer->killed());
  clock_.Advance(2);  // it is there, and does not answer
  epoch_->Tick();
  EXPECT_TRUE(host_.trainer->killed());
}

TEST_F(HeldEpochTest, ARegisterTellsTheStepsThatItsRanksWereGiven) {
  ASSERT_TRUE(epoch_->Held().has_value());
  EXPECT_EQ(epoch_->Held()->steps(), 200);
}

}  // namespace
}  // namespace strata::worker
