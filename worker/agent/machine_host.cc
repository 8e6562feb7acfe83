#include "worker/agent/machine_host.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "worker/agent/directory_lock.h"
#include "worker/agent/disk_room.h"
#include "worker/agent/epoch_folder.h"
#include "worker/agent/log_tail.h"
#include "worker/agent/machine_memory.h"
#include "worker/agent/metrics_files.h"
#include "worker/agent/start_trainers.h"

namespace strata::worker {
namespace {

constexpr int kPlanLog = -1;

google::protobuf::Timestamp WallTime() {
  const double seconds = common::WallSeconds();
  google::protobuf::Timestamp now;
  now.set_seconds(static_cast<int64_t>(seconds));
  now.set_nanos(static_cast<int32_t>((seconds - static_cast<double>(now.seconds())) * 1e9));
  return now;
}

class MachineEpochHost final : public EpochHost {
 public:
  MachineEpochHost(AgentFolder* folder, TrainerPoll* trainers, const v1::PrepareEpoch& prepare)
      : folder_(folder), trainers_(trainers), prepare_(prepare) {}

  absl::Status Lock() override;
  void Unlock() override { locks_.clear(); }
  absl::StatusOr<std::unique_ptr<Trainer>> StartPlanner() override;
  absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartRanks() override;
  std::unique_ptr<Trainer> FindAgain(const v1::HeldEpochRecord::Trainer& trainer) override;
  MachineRoom Room() override {
    return {FreeBytes(prepare_.spec().checkpoint().directory()), ReadMachineMemory()};
  }
  absl::Status SaveRecord(const v1::HeldEpochRecord& record) override {
    return folder_->SaveRecord(record);
  }
  void RemoveRecord(const v1::HeldEpochRecord& record) override { folder_->RemoveRecord(record); }
  absl::StatusOr<std::unique_ptr<StepRecords>> OpenRecords(int64_t start_step, int64_t* published,
                                                           bool* missing) override;
  std::vector<v1::LogLine> ReadLogs(size_t most, bool last) override;

 private:
  const v1::JobEpoch& epoch() const { return prepare_.epoch(); }
  std::vector<int> own() const { return {prepare_.own().begin(), prepare_.own().end()}; }
  TrainersOptions MakeOptions() const;
  void Follow(int rank, const std::string& path) {
    logs_.emplace(rank, LogTail(path, /*from_end=*/true));
  }

  AgentFolder* const folder_;
  TrainerPoll* const trainers_;
  const v1::PrepareEpoch prepare_;
  std::vector<DirectoryLock> locks_;
  std::map<int, LogTail> logs_;  // by rank
};

TrainersOptions MachineEpochHost::MakeOptions() const {
  TrainersOptions options;
  options.ranks = own();
  options.job_directory = prepare_.directory();
  options.progress_path = [this](int rank) { return folder_->ProgressPath(epoch(), rank); };
  options.log_path = [this](int rank) { return folder_->LogPath(epoch(), rank); };
  for (const DirectoryLock& lock : locks_) options.locks.push_back(lock.descriptor());
  return options;
}

absl::Status MachineEpochHost::Lock() {
  std::error_code error;
  for (const std::string& directory :
       {prepare_.directory(), prepare_.spec().checkpoint().directory()}) {
    if (directory.empty() ||
        (!locks_.empty() && std::filesystem::equivalent(directory, prepare_.directory(), error))) {
      continue;
    }
    ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::AcquireForJob(directory, prepare_.owner()));
    locks_.push_back(std::move(lock));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Trainer>> MachineEpochHost::StartPlanner() {
  folder_->PruneLogs();
  TrainersOptions options = MakeOptions();
  options.ranks.resize(1);
  options.progress_path = nullptr;
  const std::string log = folder_->PlanLogPath(epoch());
  options.log_path = [log](int) { return log; };
  Follow(kPlanLog, log);
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Trainer>> started,
                   StartTrainers(options, trainers_));
  return std::move(started.front());
}

absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> MachineEpochHost::StartRanks() {
  logs_.erase(kPlanLog);
  const TrainersOptions options = MakeOptions();
  for (const int rank : options.ranks) {
    if (rank != 0) continue;
    RETURN_IF_ERROR(MakeEpochFolder(prepare_.directory(), epoch().epoch()).status());
  }
  for (const int rank : options.ranks) Follow(rank, options.log_path(rank));
  return StartTrainers(options, trainers_);
}

std::unique_ptr<Trainer> MachineEpochHost::FindAgain(const v1::HeldEpochRecord::Trainer& trainer) {
  Follow(trainer.rank(), folder_->LogPath(epoch(), trainer.rank()));
  const std::string progress = folder_->ProgressPath(epoch(), trainer.rank());
  absl::StatusOr<std::unique_ptr<TrainerProcess>> process = TrainerProcess::Adopt(
      static_cast<pid_t>(trainer.pid()), trainer.start_time(), progress, trainers_);
  return process.ok() ? *std::move(process) : TrainerProcess::Remains(progress);
}

absl::StatusOr<std::unique_ptr<StepRecords>> MachineEpochHost::OpenRecords(int64_t start_step,
                                                                           int64_t* published,
                                                                           bool* missing) {
  const std::string& directory = prepare_.directory();
  ASSIGN_OR_RETURN(const std::string folder, MakeEpochFolder(directory, epoch().epoch()));
  ASSIGN_OR_RETURN(MetricsFiles files, MetricsFiles::Continue(directory, folder, epoch().epoch(),
                                                              start_step, published, missing));
  return std::make_unique<MetricsFiles>(std::move(files));
}

std::vector<v1::LogLine> MachineEpochHost::ReadLogs(size_t most, bool last) {
  std::vector<v1::LogLine> lines;
  for (auto& [rank, log] : logs_) {
    for (std::string& text : log.Read(most, last)) {
      v1::LogLine& line = lines.emplace_back();
      *line.mutable_time() = WallTime();
      line.set_rank(rank);
      line.set_text(std::move(text));
    }
  }
  return lines;
}

}  // namespace

std::unique_ptr<EpochHost> MachineHost::OpenEpoch(const v1::PrepareEpoch& prepare) {
  return std::make_unique<MachineEpochHost>(folder_, trainers_, prepare);
}

void MachineHost::Log(const std::string& text) {
  std::fprintf(stderr, "strata-worker: %s\n", text.c_str());
}

}  // namespace strata::worker
