#include "simulation/sim_epoch.h"

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

// The job's records, as one agent writes them.
class SimStepRecords final : public worker::StepRecords {
 public:
  SimStepRecords(Cluster& cluster, controller::EpochKey key)
      : cluster_(cluster), key_(std::move(key)), file_(cluster.oracle.RecordsFile(key_.job)) {}

  absl::Status Append(const v1::StepRecord& record) override {
    if (cluster_.storages[key_.job].Full(cluster_.events.Now())) {
      return absl::UnavailableError("metrics.jsonl: No space left on device");
    }
    if (cluster_.options.bug == PlantedBug::kLosesStepRecords && cluster_.random.Chance(0.01)) {
      return absl::OkStatus();
    }
    cluster_.oracle.OnStepRecord(key_, file_, record.step());
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  Cluster& cluster_;
  const controller::EpochKey key_;
  const int64_t file_;
};

}  // namespace

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

absl::StatusOr<std::unique_ptr<worker::StepRecords>> SimEpoch::OpenRecords(int64_t start_step,
                                                                           int64_t* published,
                                                                           bool* missing) {
  if (cluster_.epoch_folders[key().job] != key().epoch &&
      cluster_.options.bug != PlantedBug::kPublishesWhenOver) {
    return absl::FailedPreconditionError("a later start of the job has taken its place");
  }
  *published = cluster_.oracle.ContinueRecords(key(), start_step, missing);
  return std::make_unique<SimStepRecords>(cluster_, key());
}

}  // namespace strata::simulation
