#include "simulation/sim_epoch.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "simulation/cluster.h"
#include "simulation/sim_node.h"
#include "simulation/sim_trainer.h"

namespace strata::simulation {
namespace {

std::pair<std::string, int64_t> RecordKey(const v1::HeldEpochRecord& record) {
  return {record.prepare().epoch().job(), record.prepare().epoch().epoch()};
}

// A file system that does not answer at once: now and then, so that what waits for it is tried.
constexpr double kLateSeconds = 0.7;

// The job's records, as one agent writes them.
class SimStepRecords final : public worker::StepRecords {
 public:
  SimStepRecords(Cluster& cluster, controller::EpochKey key, int64_t written)
      : cluster_(cluster),
        key_(std::move(key)),
        file_(cluster.oracle.RecordsFile(key_.job)),
        written_(written) {}

  absl::Status Append(const v1::StepRecord& record) override {
    if (cluster_.storages[key_.job].Full(cluster_.events.Now())) {
      return absl::UnavailableError("metrics.jsonl: No space left on device");
    }
    const bool late = record.step() % kLateEvery == 0;
    late_.push_back({record.step(), cluster_.events.Now() + (late ? kLateSeconds : 0)});
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Written() override {
    while (!late_.empty() && late_.front().there_at <= cluster_.events.Now()) {
      written_ = late_.front().step;
      late_.pop_front();
      if (cluster_.options.bug == PlantedBug::kLosesStepRecords && cluster_.random.Chance(0.01)) {
        continue;
      }
      cluster_.oracle.OnStepRecord(key_, file_, written_);
    }
    return written_;
  }
  absl::StatusOr<bool> Sync(int64_t step) override {
    if (step > syncing_) synced_at_ = cluster_.events.Now() + (step % 2 == 0 ? kLateSeconds : 0);
    syncing_ = std::max(syncing_, step);
    return cluster_.events.Now() >= synced_at_;
  }

 private:
  static constexpr int64_t kLateEvery = 16;
  struct Late {
    int64_t step = 0;
    double there_at = 0;
  };

  Cluster& cluster_;
  const controller::EpochKey key_;
  const int64_t file_;
  std::deque<Late> late_;
  int64_t written_;
  int64_t syncing_ = -1;
  double synced_at_ = 0;
};

}  // namespace

// Whether the file system has answered what was asked at `asked_at` (negative: now).
bool SimEpoch::Answers(bool late, double& asked_at) const {
  const double now = cluster_.events.Now();
  if (asked_at < 0) asked_at = now;
  return !late || now - asked_at >= kLateSeconds;
}

std::optional<absl::Status> SimEpoch::Open() {
  if (!Answers(key().epoch % 3 == 0, opening_at_)) return std::nullopt;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<worker::Trainer>> SimEpoch::StartPlanner() {
  return std::make_unique<SimTrainer>(cluster_, node_.Spawn(key(), prepare_.own(0), -1),
                                      /*child=*/true);
}

absl::StatusOr<std::vector<std::unique_ptr<worker::Trainer>>> SimEpoch::StartRanks() {
  cluster_.OnSpawn(key(), prepare_);
  if (prepare_.own(0) == 0) cluster_.epoch_folders[key().job] = key().epoch;
  std::vector<std::unique_ptr<worker::Trainer>> trainers;
  for (int i = 0; i < prepare_.own_size(); ++i) {
    auto process = node_.Spawn(key(), prepare_.own(i), prepare_.devices(i));
    cluster_.epochs[key()].members[prepare_.own(i)] = process.get();
    trainers.push_back(std::make_unique<SimTrainer>(cluster_, std::move(process), /*child=*/true));
  }
  return trainers;
}

std::unique_ptr<worker::Trainer> SimEpoch::FindAgain(const v1::HeldEpochRecord::Trainer& trainer) {
  return std::make_unique<SimTrainer>(cluster_, node_.disk().processes.at(trainer.pid()),
                                      /*child=*/false);
}

worker::MachineRoom SimEpoch::Room() {
  worker::MachineRoom room;
  const bool crowded = !cluster_.harmless() && cluster_.random.Chance(0.01);
  const bool full = cluster_.storages[key().job].Full(cluster_.events.Now());
  room.disk_bytes = crowded || full ? 0 : int64_t{1} << 40;
  return room;
}

absl::Status SimEpoch::SaveRecord(const v1::HeldEpochRecord& record) {
  if (node_.DiskFull()) return absl::UnavailableError("epochs: No space left on device");
  v1::HeldEpochRecord& kept = node_.disk().records[RecordKey(record)];
  kept = record;
  if (cluster_.options.bug == PlantedBug::kForgetsFragments) kept.clear_written();
  return absl::OkStatus();
}

void SimEpoch::RemoveRecord(const v1::HeldEpochRecord& record) {
  node_.disk().records.erase(RecordKey(record));
  for (const v1::HeldEpochRecord::Trainer& trainer : record.trainers()) {
    node_.disk().processes.erase(trainer.pid());
  }
}

std::optional<absl::StatusOr<SimEpoch::OpenedRecords>> SimEpoch::OpenRecords(int64_t start_step) {
  if (!Answers(key().epoch % 4 == 1, opening_records_at_)) return std::nullopt;
  if (cluster_.epoch_folders[key().job] != key().epoch &&
      cluster_.options.bug != PlantedBug::kPublishesWhenOver) {
    return absl::FailedPreconditionError("a later start of the job has taken its place");
  }
  OpenedRecords opened;
  opened.published = cluster_.oracle.ContinueRecords(key(), start_step, &opened.missing);
  opened.records = std::make_unique<SimStepRecords>(cluster_, key(), opened.published);
  return opened;
}

}  // namespace strata::simulation
