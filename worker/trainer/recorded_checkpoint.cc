#include "worker/trainer/recorded_checkpoint.h"

#include <algorithm>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/file_system.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr size_t kMostOlder = 64;
constexpr char kPayload[] = "strata.v1.CheckpointProblem";

// Whether the job's checkpoints are in the directory at all, or their storage is away.
bool HoldsCheckpoints(const std::string& directory) {
  const auto names = checkpoint::PosixFileSystem()->List(directory);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return checkpoint::StepFromFolderName(name).has_value() ||
                  checkpoint::IsDamagedFolderName(name);
         });
}

absl::StatusOr<std::unique_ptr<checkpoint::Checkpoint>> Open(const std::string& directory,
                                                             const v1::RecordedCheckpoint& recorded,
                                                             checkpoint::FileSystem* files) {
  const std::string folder =
      absl::StrCat(directory, "/", checkpoint::StepFolderName(recorded.step()));
  absl::StatusOr<std::unique_ptr<checkpoint::Checkpoint>> found =
      checkpoint::Checkpoint::OpenFolder(folder, checkpoint::Verification::kOnRead, files);
  if (absl::IsNotFound(found.status())) {
    if (HoldsCheckpoints(directory)) {
      return absl::DataLossError(absl::StrCat(folder, ": is missing"));
    }
    return absl::NotFoundError(absl::StrCat(
        folder, ": is missing, like all other checkpoints there — is their storage mounted?"));
  }
  RETURN_IF_ERROR(found.status());
  ASSIGN_OR_RETURN(const std::string text,
                   files->ReadWhole(absl::StrCat(folder, "/", checkpoint::kManifestName),
                                    checkpoint::kLargestManifestBytes));
  if (common::DigestOf(text) != recorded.manifest_digest()) {
    return absl::DataLossError(absl::StrCat(folder, "/", checkpoint::kManifestName,
                                            ": is not the one that the controller recorded"));
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<checkpoint::Checkpoint>> OpenRecorded(
    const std::string& directory, const v1::RecordedCheckpoint& recorded,
    checkpoint::FileSystem* files) {
  auto found = Open(directory, recorded, files);
  if (!found.ok()) return WithProblem(directory, recorded, found.status());
  return found;
}

absl::Status WithProblem(const std::string& directory, const v1::RecordedCheckpoint& recorded,
                         const absl::Status& status) {
  if (!absl::IsDataLoss(status) && !absl::IsUnavailable(status)) return status;
  v1::CheckpointProblem problem;
  problem.set_epoch(recorded.epoch());
  problem.set_step(recorded.step());
  problem.set_what(std::string(status.message()));
  const auto all = checkpoint::ListCheckpoints(directory);
  problem.set_may_pass(absl::IsUnavailable(status) || !all.ok());
  for (size_t i = 0; all.ok() && i < all->size(); ++i) {
    const bool recent = i + kMostOlder >= all->size();
    if (recent && (*all)[i].step < recorded.step()) problem.add_older_steps((*all)[i].step);
  }
  absl::Status told = status;
  told.SetPayload(kPayload, absl::Cord(problem.SerializeAsString()));
  return told;
}

std::optional<v1::CheckpointProblem> ProblemOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  v1::CheckpointProblem problem;
  if (!payload.has_value() || !problem.ParseFromString(std::string(*payload))) return std::nullopt;
  return problem;
}

}  // namespace strata::worker
