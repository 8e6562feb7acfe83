#include "worker/agent/cluster/machine_host.h"

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "worker/agent/cluster/job_files.h"
#include "worker/agent/cluster/late_records.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/machine/file_work.h"
#include "worker/agent/machine/log_tail.h"
#include "worker/agent/machine/machine_memory.h"
#include "worker/agent/trainers/metrics_files.h"
#include "worker/agent/trainers/start_trainers.h"

namespace strata::worker {
namespace {

constexpr int kPlanLog = -1;
// File systems of jobs answer within a moment, or are asked again at the next tick.
constexpr double kSettleSeconds = 0.05;
constexpr double kUnlockSeconds = 1;

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
                   const std::vector<std::string>* gpus, const v1::PrepareEpoch& prepare)
      : folder_(folder),
        trainers_(trainers),
        users_(users),
        gpus_(gpus),
        prepare_(prepare),
        files_(std::make_shared<JobFiles>(prepare, users->mode, users->powers)) {}
  // To close files may take long as well.
  ~MachineEpochHost() override {
    work_.Do([files = std::move(files_)]() mutable { files = nullptr; });
  }

  std::optional<absl::Status> Open() override;
  void Unlock() override;
  std::string Notice() override { return files_->as().notice; }
  absl::StatusOr<std::unique_ptr<Trainer>> StartPlanner() override;
  absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartRanks() override;
  std::unique_ptr<Trainer> FindAgain(const v1::HeldEpochRecord::Trainer& trainer) override;
  MachineRoom Room() override { return {files_->free_bytes(), ReadMachineMemory()}; }
  absl::Status SaveRecord(const v1::HeldEpochRecord& record) override {
    return folder_->SaveRecord(record);
  }
  void RemoveRecord(const v1::HeldEpochRecord& record) override { folder_->RemoveRecord(record); }
  std::optional<absl::StatusOr<OpenedRecords>> OpenRecords(int64_t start_step) override;
  std::vector<v1::LogLine> ReadLogs(size_t most, bool last) override;

 private:
  struct Records {
    absl::StatusOr<MetricsFiles> files;
    int64_t published = 0;
    bool missing = false;
  };

  const v1::JobEpoch& epoch() const { return prepare_.epoch(); }
  std::vector<int> own() const { return {prepare_.own().begin(), prepare_.own().end()}; }
  TrainersOptions MakeOptions(const std::string& what) const;
  std::vector<std::string> VariablesOf(int rank) const;
  // Whether its processes may: they need the agent's socket, and the job's directories.
  bool HasOwnTmp() const;
  void Follow(int rank, const std::string& path) {
    logs_.emplace(rank, LogTail(path, /*from_end=*/true));
  }

  AgentFolder* const folder_;
  TrainerPoll* const trainers_;
  const MachineHost::Users* const users_;
  const std::vector<std::string>* const gpus_;
  const v1::PrepareEpoch prepare_;
  std::shared_ptr<JobFiles> files_;  // the work's, until it has settled
  std::shared_ptr<absl::Status> opened_;
  std::shared_ptr<Records> opening_;
  FileWork work_;
  std::map<int, LogTail> logs_;  // by rank
};

// `what` its processes are, in the names of their units.
TrainersOptions MachineEpochHost::MakeOptions(const std::string& what) const {
  TrainersOptions options;
  options.ranks = own();
  options.device = prepare_.spec().resources().device();
  options.job_directory = prepare_.directory();
  options.progress_path = [this](int rank) { return folder_->ProgressPath(epoch(), rank); };
  options.log_path = [this](int rank) { return folder_->LogPath(epoch(), rank); };
  options.locks = files_->locks();
  if (files_->as().user.has_value()) {
    options.launch = [this, what](int rank) {
      const std::string unit = absl::StrCat("strata-", ShortJobName(epoch().job()), "-",
                                            epoch().epoch(), "-", what, "-", rank);
      std::optional<Scope> scope;
      if (users_->powers.systemd) scope = {unit, users_->unit_properties, HasOwnTmp()};
      return LaunchCommand(*files_->as().user, scope, OfThisProcess("/proc/self/exe"));
    };
  }
  return options;
}

// CUDA numbers devices in another order than NVML, unless it is shown one by its name.
std::vector<std::string> MachineEpochHost::VariablesOf(int rank) const {
  for (int place = 0; place < prepare_.own_size() && place < prepare_.devices_size(); ++place) {
    const auto device = static_cast<size_t>(prepare_.devices(place));
    if (prepare_.own(place) != rank || device >= gpus_->size()) continue;
    return {absl::StrCat("CUDA_VISIBLE_DEVICES=", gpus_->at(device))};
  }
  return {};
}

bool MachineEpochHost::HasOwnTmp() const {
  std::vector<std::string> paths = {folder_->path(), prepare_.directory(),
                                    prepare_.spec().checkpoint().directory()};
  paths.insert(paths.end(), prepare_.roots().begin(), prepare_.roots().end());
  return NoneInTmp(paths);
}

std::optional<absl::Status> MachineEpochHost::Open() {
  if (opened_ == nullptr) {
    opened_ = std::make_shared<absl::Status>();
    work_.Do([files = files_, opened = opened_] { *opened = files->Open(); });
  }
  if (!work_.Settle(kSettleSeconds)) return std::nullopt;
  return *opened_;
}

void MachineEpochHost::Unlock() {
  work_.Do([files = files_] { files->Unlock(); });
  work_.Settle(kUnlockSeconds);
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
  TrainersOptions options = MakeOptions("rank");
  options.variables = [this](int rank) { return VariablesOf(rank); };
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

std::optional<absl::StatusOr<MachineEpochHost::OpenedRecords>> MachineEpochHost::OpenRecords(
    int64_t start_step) {
  if (opening_ == nullptr) {
    opening_ = std::make_shared<Records>();
    work_.Do([files = files_, opening = opening_, start_step] {
      opening->files = files->OpenRecords(start_step, &opening->published, &opening->missing);
    });
  }
  if (!work_.Settle(kSettleSeconds)) return std::nullopt;
  const std::shared_ptr<Records> opening = std::exchange(opening_, nullptr);
  if (!opening->files.ok()) return opening->files.status();
  auto metrics = std::make_shared<MetricsFiles>(*std::move(opening->files));
  return OpenedRecords{
      std::make_unique<LateRecords>(&work_, std::move(metrics), opening->published),
      opening->published, opening->missing};
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
  return std::make_unique<MachineEpochHost>(folder_, trainers_, &users_, &gpus_, prepare);
}

void MachineHost::Log(const std::string& text) {
  std::fprintf(stderr, "strata-worker: %s\n", text.c_str());
}

}  // namespace strata::worker
