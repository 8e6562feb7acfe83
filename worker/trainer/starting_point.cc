#include "worker/trainer/starting_point.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/commit_authority.h"
#include "checkpoint/committer.h"
#include "checkpoint/file_system.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "worker/trainer/agent_commit_authority.h"
#include "worker/trainer/data_files.h"
#include "worker/trainer/inference_program.h"
#include "worker/trainer/job_difference.h"
#include "worker/trainer/recorded_checkpoint.h"

namespace strata::worker {
namespace {

constexpr char kAdvice[] = "go on with --resume, or choose another directory";
constexpr char kControlledAdvice[] = "choose another checkpoint.directory";

void AddNotice(v1::JobPlan& plan, v1::Notice::Severity severity, const std::string& text) {
  v1::Notice* const notice = plan.add_notices();
  notice->set_severity(severity);
  notice->set_text(text);
}

// `advice`: what the one who started the job can do.
absl::Status RefuseExisting(const std::string& directory, const char* advice) {
  ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointFolder> found,
                   checkpoint::ListCheckpoints(directory));
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(directory,
                                                 ": holds checkpoints already (the newest of step ",
                                                 found.back().step, ") — ", advice));
}

// That its data files are those of `plan` is another question: see CheckSameFiles.
absl::Status CheckSameJob(const v1::JobSpec& job, const checkpoint::Checkpoint& found,
                          v1::JobPlan& plan) {
  ASSIGN_OR_RETURN(const v1::JobSpec other, JobOf(found.manifest()));
  const bool by_content = !found.manifest().info.data_files.empty();
  const JobDifference difference =
      CompareJobs(job, other, by_content ? DataFilesBy::kContent : DataFilesBy::kPath);
  if (!difference.refused.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(found.folder(),
                                                   ": the checkpoint of another job — ",
                                                   absl::StrJoin(difference.refused, "; ")));
  }
  for (const std::string& told : difference.told) {
    AddNotice(plan, v1::Notice::SEVERITY_WARNING,
              absl::StrCat("changed since the checkpoint: ", told));
  }
  return absl::OkStatus();
}

// What a job trains on must be what its checkpoint was trained on, byte by byte.
absl::Status CheckSameFiles(const v1::JobSpec& job, const checkpoint::Checkpoint& found,
                            v1::JobPlan& plan) {
  const protocol::DataFiles recorded = FromManifest(found.manifest().info.data_files);
  if (recorded.empty()) {
    AddNotice(plan, v1::Notice::SEVERITY_WARNING,
              absl::StrCat(found.folder(),
                           ": does not say what its data files were like: whether "
                           "they are the same is not known"));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::JobSpec other, JobOf(found.manifest()));
  return CheckSameData(job, other, recorded, plan);
}

// Where the job has no checkpoint of its own: that of another one, if it names one, with its step,
// its updates and its place in the data.
absl::Status UseOther(const v1::JobSpec& job, v1::JobPlan& plan) {
  if (!job.train().has_start_from()) return absl::OkStatus();
  absl::StatusOr<checkpoint::NewestIntact> newest =
      checkpoint::OpenCheckpoint(job.train().start_from());
  if (!newest.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("train.start_from: ", newest.status().message()));
  }
  const checkpoint::Checkpoint& found = *newest->checkpoint;
  RETURN_IF_ERROR(CheckSameJob(job, found, plan));
  RETURN_IF_ERROR(CheckSameFiles(job, found, plan));
  for (const checkpoint::Damage& damage : newest->damaged) {
    AddNotice(plan, v1::Notice::SEVERITY_WARNING,
              absl::StrCat("train.start_from: damaged checkpoint: ", damage.what));
  }
  plan.set_checkpoint_folder(found.folder());
  plan.set_start_step(found.manifest().info.step);
  AddNotice(plan, v1::Notice::SEVERITY_INFO,
            absl::StrCat("the job goes on from ", found.folder(), " of another job"));
  return absl::OkStatus();
}

// Moves a damaged checkpoint out of the way. `what`: it, and what is wrong with it where that has
// not been told yet; `instead`: what the job goes on with.
absl::Status SetAside(checkpoint::Committer& committer, int64_t step, const std::string& what,
                      const std::string& instead, v1::JobPlan& plan) {
  ASSIGN_OR_RETURN(const std::string name, committer.SetAside(step));
  AddNotice(plan, v1::Notice::SEVERITY_WARNING,
            absl::StrCat("damaged checkpoint: ", what, " — set aside as ", name, ", ", instead));
  return absl::OkStatus();
}

absl::Status UseNewest(const v1::TrainerTask& task, checkpoint::Committer& committer,
                       v1::JobPlan& plan) {
  const std::string& directory = task.job().checkpoint().directory();
  absl::StatusOr<checkpoint::NewestIntact> newest = checkpoint::FindNewestIntact(directory);
  if (absl::IsNotFound(newest.status())) {
    AddNotice(plan, v1::Notice::SEVERITY_WARNING,
              absl::StrCat("no checkpoint in ", directory, ": the job starts anew"));
    return UseOther(task.job(), plan);
  }
  RETURN_IF_ERROR(newest.status());
  const checkpoint::Checkpoint& found = *newest->checkpoint;
  const int64_t step = found.manifest().info.step;
  RETURN_IF_ERROR(CheckSameJob(task.job(), found, plan));
  RETURN_IF_ERROR(CheckSameFiles(task.job(), found, plan));
  for (const checkpoint::Damage& damage : newest->damaged) {
    RETURN_IF_ERROR(SetAside(committer, damage.step, damage.what,
                             absl::StrCat("using ", checkpoint::StepFolderName(step)), plan));
  }
  plan.set_checkpoint_folder(found.folder());
  plan.set_start_step(step);
  return absl::OkStatus();
}

// Whether a later epoch has written that step again. Only a process of a start that is over may
// find that: its node stood still.
bool IsReplaced(const std::string& folder, const v1::RecordedCheckpoint& damaged) {
  const auto text = checkpoint::PosixFileSystem()->ReadWhole(
      absl::StrCat(folder, "/", checkpoint::kManifestName), checkpoint::kLargestManifestBytes);
  if (!text.ok()) return false;
  const absl::StatusOr<checkpoint::Manifest> manifest = checkpoint::Manifest::FromJson(*text);
  return manifest.ok() && manifest->info.epoch > damaged.epoch();
}

// Those that the controller knows to be damaged; again, if a start was interrupted in the middle.
absl::Status SetAsideDamaged(const v1::Controlled& controlled, const std::string& directory,
                             checkpoint::Committer& committer, v1::JobPlan& plan) {
  const std::string instead =
      controlled.has_checkpoint()
          ? absl::StrCat("using ", checkpoint::StepFolderName(controlled.checkpoint().step()))
          : "the job starts anew";
  for (const v1::RecordedCheckpoint& damaged : controlled.damaged()) {
    const std::string name = checkpoint::StepFolderName(damaged.step());
    const std::string folder = absl::StrCat(directory, "/", name);
    if (!checkpoint::PosixFileSystem()->Exists(folder) || IsReplaced(folder, damaged)) continue;
    RETURN_IF_ERROR(SetAside(committer, damaged.step(), name, instead, plan));
  }
  return absl::OkStatus();
}

// All of them are damaged, and those that the controller does not know it cannot give up.
absl::Status SetAllAside(const v1::TrainerTask& task, checkpoint::Committer& committer,
                         v1::JobPlan& plan) {
  ASSIGN_OR_RETURN(const std::vector<checkpoint::CheckpointFolder> all,
                   checkpoint::ListCheckpoints(task.job().checkpoint().directory()));
  for (const checkpoint::CheckpointFolder& folder : all) {
    if (folder.step <= task.controlled().checkpoint().step()) continue;
    RETURN_IF_ERROR(SetAside(committer, folder.step, checkpoint::StepFolderName(folder.step),
                             "for no checkpoint is whole", plan));
  }
  return absl::OkStatus();
}

// What the controller's restored state does not know is told, so that all nodes begin with it.
// Damaged ones that are newer still would be in the way of the job's next ones.
absl::Status FindNewer(const v1::TrainerTask& task, checkpoint::Committer& committer,
                       v1::JobPlan& plan) {
  absl::StatusOr<checkpoint::NewestIntact> newest =
      checkpoint::FindNewestIntact(task.job().checkpoint().directory());
  if (absl::IsNotFound(newest.status())) return absl::OkStatus();
  if (absl::IsDataLoss(newest.status())) return SetAllAside(task, committer, plan);
  RETURN_IF_ERROR(newest.status());
  const checkpoint::Checkpoint& found = *newest->checkpoint;
  const checkpoint::CheckpointInfo& info = found.manifest().info;
  const int64_t recorded = task.controlled().checkpoint().step();
  RETURN_IF_ERROR(CheckSameJob(task.job(), found, plan));
  RETURN_IF_ERROR(CheckSameFiles(task.job(), found, plan));
  for (const checkpoint::Damage& damage : newest->damaged) {
    if (damage.step <= std::max(recorded, info.step)) continue;
    RETURN_IF_ERROR(SetAside(committer, damage.step, damage.what,
                             "newer than what the job goes on with", plan));
  }
  if (info.step <= recorded) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::JobSpec written_by, JobOf(found.manifest()));
  plan.set_newer_steps(written_by.train().steps());
  ASSIGN_OR_RETURN(const std::string text,
                   checkpoint::PosixFileSystem()->ReadWhole(
                       absl::StrCat(found.folder(), "/", checkpoint::kManifestName),
                       checkpoint::kLargestManifestBytes));
  v1::RecordedCheckpoint& newer = *plan.mutable_newer_checkpoint();
  newer.set_epoch(info.epoch);
  newer.set_step(info.step);
  newer.set_manifest_digest(common::DigestOf(text));
  return absl::OkStatus();
}

// The controller has named epoch and checkpoint.
absl::Status FindControlledStart(const v1::TrainerTask& task, v1::JobPlan& plan) {
  const v1::Controlled& controlled = task.controlled();
  const std::string& directory = task.job().checkpoint().directory();
  RecordedAuthority recorded_only(controlled);
  checkpoint::LocalCommitAuthority all;  // what was recorded since the backup, nobody knows
  checkpoint::CommitAuthority* authority = &recorded_only;
  if (controlled.adopt_newer_checkpoint()) authority = &all;
  checkpoint::Committer committer(directory, checkpoint::PosixFileSystem(), authority);
  if (const absl::Status status = committer.PrepareDirectory(); !status.ok()) {
    return absl::InvalidArgumentError(std::string(status.message()));
  }
  plan.set_epoch(controlled.epoch());
  plan.set_attempt(controlled.attempt());
  if (controlled.recover()) {
    RETURN_IF_ERROR(committer.Recover(plan.epoch()).status());
    RETURN_IF_ERROR(SetAsideDamaged(controlled, directory, committer, plan));
    if (controlled.adopt_newer_checkpoint()) RETURN_IF_ERROR(FindNewer(task, committer, plan));
    if (plan.has_newer_checkpoint()) return absl::OkStatus();
    if (!controlled.has_checkpoint()) RETURN_IF_ERROR(RefuseExisting(directory, kControlledAdvice));
  }
  if (!controlled.has_checkpoint()) return UseOther(task.job(), plan);
  const v1::RecordedCheckpoint& recorded = controlled.checkpoint();
  plan.set_checkpoint_folder(
      absl::StrCat(directory, "/", checkpoint::StepFolderName(recorded.step())));
  plan.set_start_step(recorded.step());
  if (!controlled.recover()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::Checkpoint> found,
                   OpenRecorded(directory, recorded));
  return CheckSameJob(task.job(), *found, plan);
}

}  // namespace

absl::Status FindStartingPoint(const v1::TrainerTask& task, v1::JobPlan& plan) {
  if (task.has_controlled()) return FindControlledStart(task, plan);
  const std::string& directory = task.job().checkpoint().directory();
  checkpoint::LocalCommitAuthority authority;
  checkpoint::Committer committer(directory, checkpoint::PosixFileSystem(), &authority);
  if (const absl::Status status = committer.PrepareDirectory(); !status.ok()) {
    return absl::InvalidArgumentError(std::string(status.message()));
  }
  ASSIGN_OR_RETURN(const int64_t next_epoch, committer.NextEpoch());
  plan.set_epoch(task.resume() ? std::max(next_epoch, task.minimum_epoch()) : next_epoch);
  plan.set_attempt(plan.epoch());  // nothing but starts counts it here
  if (!task.resume()) RETURN_IF_ERROR(RefuseExisting(directory, kAdvice));
  RETURN_IF_ERROR(committer.Recover(plan.epoch()).status());
  if (task.resume()) return UseNewest(task, committer, plan);
  RETURN_IF_ERROR(RefuseExisting(directory, kAdvice));
  return UseOther(task.job(), plan);
}

}  // namespace strata::worker
