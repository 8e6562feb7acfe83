#include "worker/agent/cluster/machine_host.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/path_roots.h"
#include "common/status_macros.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/machine/directory_lock.h"
#include "worker/agent/machine/disk_room.h"
#include "worker/agent/machine/epoch_folder.h"
#include "worker/agent/machine/job_folder.h"
#include "worker/agent/machine/log_tail.h"
#include "worker/agent/machine/machine_memory.h"
#include "worker/agent/trainers/metrics_files.h"
#include "worker/agent/trainers/start_trainers.h"

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
  MachineEpochHost(AgentFolder* folder, TrainerPoll* trainers, const MachineHost::Users* users,
                   const v1::PrepareEpoch& prepare)
      : folder_(folder), trainers_(trainers), users_(users), prepare_(prepare) {}

  absl::Status Lock() override;
  void Unlock() override { locks_.clear(); }
  std::string Notice() override { return as_.notice; }
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
  TrainersOptions MakeOptions(const std::string& what) const;
  // As whom, and beneath which roots, it works in the job's directories; once.
  absl::Status Enter();
  absl::Status LockIn(const JobFolder& folder);
  void Follow(int rank, const std::string& path) {
    logs_.emplace(rank, LogTail(path, /*from_end=*/true));
  }

  AgentFolder* const folder_;
  TrainerPoll* const trainers_;
  const MachineHost::Users* const users_;
  const v1::PrepareEpoch prepare_;
  Decision as_;
  common::PathRoots roots_;
  std::optional<JobFolder> job_folder_;
  std::vector<DirectoryLock> locks_;
  std::map<int, LogTail> logs_;  // by rank
};

// `what` its processes are, in the names of their units.
TrainersOptions MachineEpochHost::MakeOptions(const std::string& what) const {
  TrainersOptions options;
  options.ranks = own();
  options.job_directory = prepare_.directory();
  options.progress_path = [this](int rank) { return folder_->ProgressPath(epoch(), rank); };
  options.log_path = [this](int rank) { return folder_->LogPath(epoch(), rank); };
  for (const DirectoryLock& lock : locks_) options.locks.push_back(lock.descriptor());
  if (as_.user.has_value()) {
    options.launch = [this, what](int rank) {
      const std::string unit = absl::StrCat("strata-", ShortJobName(epoch().job()), "-",
                                            epoch().epoch(), "-", what, "-", rank);
      return LaunchCommand(*as_.user, users_->powers.systemd, unit, users_->unit_properties,
                           OfThisProcess("/proc/self/exe"));
    };
  }
  return options;
}

absl::Status MachineEpochHost::Enter() {
  if (job_folder_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(as_, DecideUser(users_->mode, users_->powers, prepare_.run_as()));
  ASSIGN_OR_RETURN(roots_,
                   common::PathRoots::Open({prepare_.roots().begin(), prepare_.roots().end()}));
  const AsUser as(as_.user);
  ASSIGN_OR_RETURN(job_folder_, JobFolder::Open(roots_, prepare_.directory()));
  return absl::OkStatus();
}

absl::Status MachineEpochHost::LockIn(const JobFolder& folder) {
  absl::StatusOr<DirectoryLock> lock =
      DirectoryLock::AcquireForJob(folder.held_path(), prepare_.owner());
  if (!lock.ok()) return folder.Named(lock.status());
  locks_.push_back(*std::move(lock));
  return absl::OkStatus();
}

absl::Status MachineEpochHost::Lock() {
  RETURN_IF_ERROR(Enter());
  const AsUser as(as_.user);
  RETURN_IF_ERROR(LockIn(*job_folder_));
  const std::string& checkpoints = prepare_.spec().checkpoint().directory();
  if (checkpoints.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JobFolder folder, JobFolder::Open(roots_, checkpoints));
  std::error_code error;
  if (std::filesystem::equivalent(folder.held_path(), job_folder_->held_path(), error)) {
    return absl::OkStatus();
  }
  return LockIn(folder);
}

absl::StatusOr<std::unique_ptr<Trainer>> MachineEpochHost::StartPlanner() {
  folder_->PruneLogs();
  TrainersOptions options = MakeOptions("plan");
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
  const TrainersOptions options = MakeOptions("rank");
  for (const int rank : options.ranks) {
    if (rank != 0) continue;
    const AsUser as(as_.user);
    RETURN_IF_ERROR(
        job_folder_->Named(MakeEpochFolder(job_folder_->held_path(), epoch().epoch()).status()));
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
  RETURN_IF_ERROR(Enter());
  const AsUser as(as_.user);
  const std::string directory = job_folder_->held_path();
  const absl::StatusOr<std::string> folder = FindEpochFolder(directory, epoch().epoch());
  if (!folder.ok()) return job_folder_->Named(folder.status());
  absl::StatusOr<MetricsFiles> files =
      MetricsFiles::Continue(directory, *folder, epoch(), start_step, published, missing);
  if (!files.ok()) return job_folder_->Named(files.status());
  return std::make_unique<MetricsFiles>(*std::move(files));
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
  return std::make_unique<MachineEpochHost>(folder_, trainers_, &users_, prepare);
}

void MachineHost::Log(const std::string& text) {
  std::fprintf(stderr, "strata-worker: %s\n", text.c_str());
}

}  // namespace strata::worker
