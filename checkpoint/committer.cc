#include "checkpoint/committer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/layout.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Whether something is at the place of a checkpoint; a crash may have left an empty folder there.
bool IsTaken(FileSystem* files, const std::string& folder) {
  if (!files->Exists(folder)) return false;
  const auto names = files->List(folder);
  return !names.ok() || !names->empty();
}

}  // namespace

Committer::Committer(std::string directory, FileSystem* files, CommitAuthority* authority)
    : directory_(WithoutTrailingSlashes(std::move(directory))),
      files_(files),
      authority_(authority) {}

absl::Status Committer::PrepareDirectory() {
  RETURN_IF_ERROR(CreateFolders(files_, directory_));
  const std::string probe = directory_ + "/.writable";
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_->CreateFile(probe));
    RETURN_IF_ERROR(file->Append("strata\n", 7));
    return file->Close();
  };
  const absl::Status status = write();
  if (status.ok()) return files_->RemoveAll(probe);
  files_->RemoveAll(probe).IgnoreError();  // the first error is the one to report
  return status;
}

absl::StatusOr<Published> Committer::Commit(const CommitRequest& request) {
  const CheckpointInfo& info = request.info;
  const std::string name = StepFolderName(info.step), folder = directory_ + "/" + name;
  const std::string working = absl::StrCat(directory_, "/", EpochFolderName(info.epoch), "/", name);
  ASSIGN_OR_RETURN(const Manifest manifest, JoinFragments(info, request.fragments));
  ASSIGN_OR_RETURN(const std::string text, manifest.ToJson());
  if (IsTaken(files_, folder)) {
    // By an earlier try, or not ours.
    const auto there = files_->ReadWhole(folder + "/" + kManifestName, text.size());
    if (!there.ok() || *there != text) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, ": another checkpoint of this step is there; it is left as it is"));
    }
    RETURN_IF_ERROR(files_->SyncFolder(directory_));
  } else {
    for (const ManifestFile& file : manifest.files) {
      if (!files_->Exists(working + "/" + file.name)) {
        return absl::FailedPreconditionError(
            absl::StrCat(working, "/", file.name, ": is missing, the checkpoint is incomplete"));
      }
    }
    RETURN_IF_ERROR(WriteAtomically(files_, working + "/" + kManifestName, text));
    RETURN_IF_ERROR(authority_->Record(info.epoch, info.step, common::DigestOf(text), working));
    RETURN_IF_ERROR(Publish(working, info.step));
  }
  return Published{folder, DeleteBeyond(request.keep, info.step)};
}

absl::Status Committer::Publish(const std::string& from, int64_t step) {
  RETURN_IF_ERROR(files_->PublishFolder(from, directory_ + "/" + StepFolderName(step)));
  return files_->SyncFolder(directory_);
}

absl::Status Committer::DeleteBeyond(int64_t keep, int64_t newest_step) {
  if (keep <= 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(directory_));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    const std::optional<int64_t> step = StepFromFolderName(name);
    // Newer ones are of another history, which is not for this commit to judge.
    if (step.has_value() && *step <= newest_step) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  absl::Status first;
  for (size_t i = static_cast<size_t>(keep); i < steps.size(); ++i) {
    const std::string leaving = directory_ + "/" + DeletingFolderName(steps[i]);
    const auto remove = [&]() -> absl::Status {
      RETURN_IF_ERROR(files_->RemoveAll(leaving));
      RETURN_IF_ERROR(files_->RenameFolder(directory_ + "/" + StepFolderName(steps[i]), leaving));
      RETURN_IF_ERROR(files_->SyncFolder(directory_));
      return files_->RemoveAll(leaving);
    };
    first.Update(remove());
  }
  return first;
}

absl::StatusOr<std::vector<int64_t>> Committer::Recover(int64_t current_epoch) {
  std::vector<int64_t> published;
  if (!files_->Exists(directory_)) return published;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(directory_));
  for (const std::string& name : names) {
    if (IsDeletingFolderName(name)) RETURN_IF_ERROR(files_->RemoveAll(directory_ + "/" + name));
    const std::optional<int64_t> epoch = EpochFromFolderName(name);
    if (!epoch.has_value() || *epoch >= current_epoch) continue;
    const std::string epoch_folder = directory_ + "/" + name;
    ASSIGN_OR_RETURN(const std::vector<std::string> inside, files_->List(epoch_folder));
    for (const std::string& step_name : inside) {
      const std::optional<int64_t> step = StepFromFolderName(step_name);
      const std::string folder = epoch_folder + "/" + step_name;
      if (!step.has_value() || !files_->Exists(folder + "/" + kManifestName)) continue;
      if (IsTaken(files_, directory_ + "/" + step_name)) continue;
      ASSIGN_OR_RETURN(const bool recorded, authority_->IsRecorded(*epoch, *step, folder));
      if (!recorded) continue;
      RETURN_IF_ERROR(Publish(folder, *step));
      published.push_back(*step);
    }
    RETURN_IF_ERROR(files_->RemoveAll(epoch_folder));
  }
  std::sort(published.begin(), published.end());
  return published;
}

absl::StatusOr<std::string> Committer::SetAside(int64_t step) {
  for (int count = 1;; ++count) {
    const std::string name = DamagedFolderName(step, count);
    const absl::Status status =
        files_->RenameFolder(directory_ + "/" + StepFolderName(step), directory_ + "/" + name);
    if (absl::IsAlreadyExists(status)) continue;
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(files_->SyncFolder(directory_));
    return name;
  }
}

absl::StatusOr<int64_t> Committer::NextEpoch() {
  int64_t greatest = 0;
  if (!files_->Exists(directory_)) return greatest + 1;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(directory_));
  for (const std::string& name : names) {
    greatest = std::max(greatest, EpochFromFolderName(name).value_or(0));
    if (!StepFromFolderName(name).has_value()) continue;
    const auto text = files_->ReadWhole(absl::StrCat(directory_, "/", name, "/", kManifestName),
                                        kLargestManifestBytes);
    if (!text.ok()) continue;  // damage is the reader's to report
    const auto manifest = Manifest::FromJson(*text);
    if (manifest.ok()) greatest = std::max(greatest, manifest->info.epoch);
  }
  return greatest + 1;
}

absl::Status AsyncCommitter::Begin(CommitRequest request) {
  if (worker_.busy()) {
    return absl::FailedPreconditionError("a commit is in flight; take its result first");
  }
  worker_.Start([this, request = std::move(request)] { return committer_->Commit(request); });
  return absl::OkStatus();
}

absl::StatusOr<Published> AsyncCommitter::Wait() {
  if (!worker_.busy()) return absl::FailedPreconditionError("no commit is in flight");
  return worker_.Wait();
}

}  // namespace strata::checkpoint
