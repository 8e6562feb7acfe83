// What an epoch's agent says again to a controller that may have missed it.
#include "worker/agent/logic/held_epoch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;

// A process that lives and says what the test lets it say.
class SpokenTrainer final : public Trainer {
 public:
  // `told`: where what it is told goes; null: nowhere.
  explicit SpokenTrainer(std::vector<v1::TrainerCommand>* told = nullptr) : told_(told) {}
  void Tell(const v1::TrainerEvent& event) { listener()->OnEvent(place(), event); }
  void Exit() { listener()->OnGone(place()); }

  int64_t pid() const override { return 1; }
  uint64_t start_time() const override { return 1; }
  bool connected() const override { return true; }
  void Send(const v1::TrainerCommand& command) override {
    if (told_ != nullptr) told_->push_back(command);
  }
  void Detach() override {}
  void Hang() override {}
  void Kill() override { killed_ = true; }
  bool killed() const override { return killed_; }
  void LetGo() override {}
  bool reaped() const override { return killed_; }
  std::string DescribeEnd() const override { return ""; }
  bool died_of_signal() const override { return false; }
  std::optional<v1::Ended> Outcome() override { return std::nullopt; }
  bool IsStopped() const override { return false; }
  bool IsInUninterruptibleSleep() const override { return false; }
  const ProgressView* progress() override { return nullptr; }
  bool progress_unknown() const override { return true; }
  std::string Stack() const override { return ""; }

 private:
  std::vector<v1::TrainerCommand>* const told_;
  bool killed_ = false;
};

// A file of step records that is open as long as it is there.
class OpenRecord final : public StepRecords {
 public:
  explicit OpenRecord(int* open) : open_(open) { ++*open_; }
  ~OpenRecord() override { --*open_; }
  absl::Status Append(const v1::StepRecord& record) override {
    written_ = record.step();
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Written() override { return written_; }
  absl::StatusOr<bool> Sync(int64_t) override { return true; }

 private:
  int* const open_;
  int64_t written_ = 0;
};

// A machine on which that process was found again.
class OneTrainerHost : public AgentHost, public EpochHost {
 public:
  std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch&) override {
    auto host = std::make_unique<OneTrainerHost>();
    host->found_ = &trainer;
    host->opened_ = &opened;
    host->open_ = &open;
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
    ++*opened_;
    return OpenedRecords{.records = std::make_unique<OpenRecord>(open_)};
  }
  std::vector<v1::LogLine> ReadLogs(size_t, bool) override { return {}; }

  SpokenTrainer* trainer = nullptr;
  int opened = 0, open = 0;  // records

 private:
  SpokenTrainer** found_ = nullptr;
  int* opened_ = nullptr;
  int* open_ = nullptr;
};

// A machine on which a planner is started.
class PlanningHost final : public AgentHost {
 public:
  explicit PlanningHost(std::vector<v1::TrainerCommand>* told) : told_(told) {}
  std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch&) override {
    return std::make_unique<Epoch>(told_);
  }
  absl::Status SetMembership(const v1::AgentMembership&) override { return absl::OkStatus(); }
  void Send(uint64_t, const v1::AgentMessage&) override {}
  void EndSession(uint64_t) override {}
  void Log(const std::string&) override {}

 private:
  class Epoch final : public OneTrainerHost {
   public:
    explicit Epoch(std::vector<v1::TrainerCommand>* told) : told_(told) {}
    absl::StatusOr<std::unique_ptr<Trainer>> StartPlanner() override {
      return std::make_unique<SpokenTrainer>(told_);
    }

   private:
    std::vector<v1::TrainerCommand>* const told_;
  };
  std::vector<v1::TrainerCommand>* const told_;
};

// Rank 1 of two, which trains.
class HeldEpochTest : public ::testing::Test {
 protected:
  HeldEpochTest() { Adopt(1); }
  void Adopt(int rank) {
    sequence_ = 0;
    environment_.host = &host_;
    environment_.clock = &clock_;
    environment_.connected_since = 0;
    environment_.say = [this](const v1::AgentMessage& message) { said_.push_back(message); };
    v1::HeldEpochRecord record;
    v1::PrepareEpoch& prepare = *record.mutable_prepare();
    prepare.mutable_epoch()->set_job("jobs/a");
    prepare.mutable_epoch()->set_epoch(3);
    prepare.mutable_spec()->mutable_train()->set_steps(200);
    for (const char* dimension : {"tensor", "data"}) prepare.add_rank_order(dimension);
    prepare.set_ranks(2);
    prepare.add_own(rank);
    prepare.add_devices(0);
    record.add_trainers()->set_rank(rank);
    record.set_started(true);
    record.set_running(true);
    epoch_ = HeldEpoch::Adopt(&environment_, record);
    epoch_->OnAttached(rank);
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

TEST_F(HeldEpochTest, RecordsAreOpenNoLongerThanTheEpochAndNeverTwice) {
  Adopt(0);
  epoch_->OnKept();
  EXPECT_EQ(host_.open, 1);
  epoch_->Kill("user", "stopped");
  for (int i = 0; i < 20 && !epoch_->ended(); ++i) {
    clock_.Advance(1);
    epoch_->Tick();
  }
  ASSERT_TRUE(epoch_->ended());
  EXPECT_EQ(host_.open, 0);  // though its end is still to be said again
  epoch_->OnKept();
  EXPECT_EQ(host_.opened, 1);
}

TEST_F(HeldEpochTest, OfADeviceThatFailsTheRankIsTheCause) {
  epoch_->OnDeviceFailed(1, "another rank's");
  EXPECT_FALSE(host_.trainer->killed());
  epoch_->OnDeviceFailed(0, "Xid 79: it has fallen off the bus");
  EXPECT_TRUE(host_.trainer->killed());
  host_.trainer->Exit();
  for (int i = 0; i < 20 && !epoch_->ended(); ++i) {
    clock_.Advance(1);
    epoch_->Tick();
  }
  ASSERT_TRUE(epoch_->ended());
  ASSERT_TRUE(said_.back().has_ended());
  EXPECT_EQ(said_.back().ended().cause(), "device_failed");
  EXPECT_EQ(said_.back().ended().rank(), 1);
  EXPECT_EQ(said_.back().ended().finished().message(),
            "rank 1: device 0 failed: Xid 79: it has fallen off the bus");
}

TEST_F(HeldEpochTest, ARegisterTellsTheStepsAndTheOrderThatItsRanksWereGiven) {
  ASSERT_TRUE(epoch_->Held().has_value());
  EXPECT_EQ(epoch_->Held()->steps(), 200);
  EXPECT_THAT(epoch_->Held()->rank_order(), ElementsAre("tensor", "data"));
}

// What the planner of an epoch of two ranks is told, of which so many are here.
std::vector<v1::TrainerCommand> ToldToPlanner(int here) {
  std::vector<v1::TrainerCommand> told;
  PlanningHost host(&told);
  const common::ManualClock clock;
  EpochEnvironment environment{.host = &host, .clock = &clock};
  environment.say = [](const v1::AgentMessage&) {};
  environment.profile = [] {
    v1::Profile profile;
    profile.set_host("this");
    return profile;
  };
  v1::PrepareEpoch prepare;
  prepare.mutable_epoch()->set_job("jobs/a");
  prepare.set_ranks(2);
  for (int rank = 0; rank < here; ++rank) prepare.add_own(rank);
  HeldEpoch epoch(&environment, prepare);
  epoch.Begin();
  return told;
}

TEST(HeldEpochPlanTest, TheMachinesProfileCountsWhereAllRanksAreOnIt) {
  const std::vector<v1::TrainerCommand> all = ToldToPlanner(2), some = ToldToPlanner(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].task().profile().host(), "this");
  ASSERT_EQ(some.size(), 1u);
  EXPECT_FALSE(some[0].task().has_profile());
}

}  // namespace
}  // namespace strata::worker
