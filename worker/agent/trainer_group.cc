#include "worker/agent/trainer_group.h"

#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr char kTrainerName[] = "strata-trainer";

// The trainer stands beside this binary, so that both are of one build.
absl::StatusOr<std::string> TrainerBinary() {
  char own[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", own, sizeof(own));
  if (size <= 0 || size == sizeof(own)) {
    return absl::InternalError("/proc/self/exe cannot be read: where is strata-trainer?");
  }
  const std::string path(own, static_cast<size_t>(size));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), kTrainerName);
}

}  // namespace

absl::StatusOr<TrainerGroup> TrainerGroup::Start(int ranks, const std::string& job_directory,
                                                 const std::string& progress_folder) {
  ASSIGN_OR_RETURN(const std::string binary, TrainerBinary());
  TrainerGroup group;
  for (int rank = 0; rank < ranks; ++rank) {
    TrainerStart start;
    start.binary = binary;
    start.arguments = {"--rank", absl::StrCat(rank)};
    if (!job_directory.empty()) {
      start.arguments.insert(start.arguments.end(), {"--dir", job_directory});
    }
    if (!progress_folder.empty()) {
      start.progress_path = absl::StrCat(progress_folder, "/rank-", rank, ".progress");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<TrainerProcess> trainer, TrainerProcess::Start(start));
    group.trainers_.push_back(std::move(trainer));
  }
  return group;
}

void TrainerGroup::Send(int rank, const v1::TrainerCommand& command) {
  static_cast<void>(trainers_[rank]->sender().Send(command));
}

void TrainerGroup::SendAll(const v1::TrainerCommand& command) {
  for (int rank = 0; rank < size(); ++rank) Send(rank, command);
}

void TrainerGroup::HangAll() {
  for (const auto& trainer : trainers_) trainer->Hang();
}

void TrainerGroup::KillAll() {
  for (const auto& trainer : trainers_) trainer->Kill();
}

bool TrainerGroup::AllReaped() const {
  for (const auto& trainer : trainers_) {
    if (!trainer->reaped()) return false;
  }
  return true;
}

}  // namespace strata::worker
