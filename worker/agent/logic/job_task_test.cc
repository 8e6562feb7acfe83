#include "worker/agent/logic/job_task.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

// Keeps what it is told while there is a socket; says nothing.
class MuteTrainer final : public Trainer {
 public:
  MuteTrainer(bool* connected, std::vector<v1::TrainerCommand>* heard)
      : connected_(connected), heard_(heard) {}

  int64_t pid() const override { return 1; }
  uint64_t start_time() const override { return 1; }
  bool connected() const override { return *connected_; }
  void Send(const v1::TrainerCommand& command) override {
    if (*connected_) heard_->push_back(command);
  }
  void Detach() override { *connected_ = false; }
  void Hang() override {}
  void Kill() override {}
  bool killed() const override { return false; }
  void LetGo() override {}
  bool reaped() const override { return false; }
  std::string DescribeEnd() const override { return ""; }
  bool died_of_signal() const override { return false; }
  std::optional<v1::Ended> Outcome() override { return std::nullopt; }
  bool IsStopped() const override { return false; }
  bool IsInUninterruptibleSleep() const override { return false; }
  const ProgressView* progress() override { return nullptr; }
  bool progress_unknown() const override { return false; }
  std::string Stack() const override { return ""; }

 private:
  bool* const connected_;
  std::vector<v1::TrainerCommand>* const heard_;
};

// Of a file system that hangs until it is told to go on.
class HangingRecords final : public StepRecords {
 public:
  absl::Status Append(const v1::StepRecord& record) override {
    appended = record.step();
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Written() override { return written; }
  absl::StatusOr<bool> Sync(int64_t step) override { return synced >= step; }

  int64_t appended = 0, written = 0, synced = 0;
};

class NoOverseer final : public Overseer {
 public:
  std::vector<int64_t> steps;  // told

  absl::Status OnPrepared(TrainerGroup&, const std::vector<v1::Prepared>&) override {
    return absl::OkStatus();
  }
  void OnRunning() override {}
  void OnProgress(const v1::JobProgress& progress) override {
    steps.push_back(progress.step().step());
  }
  absl::Status OnWritten(TrainerGroup&, int, const v1::CheckpointWritten&) override {
    return absl::OkStatus();
  }
  absl::Status OnRecord(TrainerGroup&, const v1::RecordCheckpoint&) override {
    return absl::OkStatus();
  }
  void OnStopping(TrainerGroup&, int64_t) override {}
};

// The controller may say it at once to an agent that was started anew: before its ranks are back.
TEST(JobTaskTest, ACommitReachesARankThatHasYetToComeBack) {
  bool connected = false;
  std::vector<v1::TrainerCommand> heard;
  std::vector<std::unique_ptr<Trainer>> trainers;
  trainers.push_back(std::make_unique<MuteTrainer>(&connected, &heard));
  TrainerGroup group({0}, std::move(trainers));
  NoOverseer overseer;
  v1::TrainerTask task;
  task.mutable_plan()->set_start_step(40);
  JobTask job(task, {0}, &overseer);
  v1::CommitCheckpoint commit;
  commit.set_step(40);
  job.Publish(nullptr, 40);
  ASSERT_TRUE(job.Commit(group, commit).ok());
  EXPECT_TRUE(heard.empty());
  connected = true;
  ASSERT_TRUE(job.OnAttached(group).ok());
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].commit().step(), 40);
  ASSERT_TRUE(job.OnAttached(group).ok());
  EXPECT_EQ(heard.size(), 1u);
}

// Or an agent that comes after this one would miss it.
TEST(JobTaskTest, AStepIsToldAcknowledgedAndCommittedOnceItsRecordIsThere) {
  bool connected = true;
  std::vector<v1::TrainerCommand> heard;
  std::vector<std::unique_ptr<Trainer>> trainers;
  trainers.push_back(std::make_unique<MuteTrainer>(&connected, &heard));
  TrainerGroup group({0}, std::move(trainers));
  NoOverseer overseer;
  JobTask job({}, {0}, &overseer);
  HangingRecords records;
  job.Publish(&records, 0);
  const auto report = [&](int64_t step) {
    v1::TrainerEvent event;
    event.set_sequence(static_cast<uint64_t>(step));
    event.mutable_step()->set_step(step);
    ASSERT_TRUE(job.OnEvent(group, 0, event).ok());
  };
  report(1);
  report(2);
  report(2);  // again
  EXPECT_EQ(records.appended, 2);
  EXPECT_TRUE(overseer.steps.empty());
  EXPECT_EQ(job.Settled(0, 2), 0u);
  v1::CommitCheckpoint commit;
  commit.set_step(1);
  ASSERT_TRUE(job.Commit(group, commit).ok());

  records.written = 1;
  ASSERT_TRUE(job.PublishWritten(group).ok());
  EXPECT_EQ(overseer.steps, std::vector<int64_t>{1});
  EXPECT_EQ(job.Settled(0, 2), 1u);
  EXPECT_TRUE(heard.empty());

  records.written = 2;
  records.synced = 1;
  ASSERT_TRUE(job.PublishWritten(group).ok());
  EXPECT_EQ(job.Settled(0, 2), 2u);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].commit().step(), 1);
}

}  // namespace
}  // namespace strata::worker
