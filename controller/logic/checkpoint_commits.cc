#include "controller/logic/checkpoint_commits.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

constexpr int kMostOlder = 15;  // of a job's checkpoints, in its record

CommitJudgement Refused(const std::string& reason) { return {CommitVerdict::kRefused, reason}; }

}  // namespace

void RecordCheckpoint(const v1::CommittedCheckpoint& checkpoint, v1::JobRecord& job) {
  if (job.has_checkpoint()) *job.add_older_checkpoints() = job.checkpoint();
  *job.mutable_checkpoint() = checkpoint;
  job.clear_damaged_checkpoints();
  const int surplus = job.older_checkpoints_size() - kMostOlder;
  if (surplus > 0) job.mutable_older_checkpoints()->DeleteSubrange(0, surplus);
}

void DiscardCheckpoint(const v1::CheckpointProblem& problem, v1::JobRecord& job) {
  *job.add_damaged_checkpoints() = job.checkpoint();
  job.clear_checkpoint();
  const auto& there = problem.older_steps();
  auto& older = *job.mutable_older_checkpoints();
  while (!older.empty() && !job.has_checkpoint()) {
    const v1::CommittedCheckpoint& last = older[older.size() - 1];
    // What is not there, retention has deleted.
    if (std::find(there.begin(), there.end(), last.step()) != there.end()) {
      *job.mutable_checkpoint() = last;
    }
    older.RemoveLast();
  }
}

v1::WriteManifest ManifestOf(const v1::JobEpoch& epoch, protocol::WholeCheckpoint checkpoint) {
  v1::WriteManifest manifest;
  *manifest.mutable_epoch() = epoch;
  manifest.set_step(checkpoint.step);
  for (std::string& fragment : checkpoint.fragments) manifest.add_fragments(std::move(fragment));
  return manifest;
}

CommitJudgement JudgeCommit(const v1::JobRecord& job, const v1::CommitRequest& request) {
  const v1::CommittedCheckpoint& asked = request.checkpoint();
  const v1::CommittedCheckpoint& recorded = job.checkpoint();
  const int64_t epoch = request.epoch().epoch();
  const std::string& uid = request.epoch().uid();
  if (!uid.empty() && uid != job.uid()) {
    return Refused(absl::StrCat(job.name(), " is another job by now, of the same name"));
  }
  if (job.has_checkpoint() && recorded.epoch() == epoch && recorded.step() == asked.step() &&
      recorded.manifest_digest() == asked.manifest_digest()) {
    return {CommitVerdict::kRecorded, ""};
  }
  if (epoch != job.epoch()) {
    return Refused(absl::StrCat("epoch ", epoch, " is over; the current one is ", job.epoch()));
  }
  if (job.state() != v1::Job::RUNNING && job.state() != v1::Job::STARTING) {
    return Refused(absl::StrCat("the ranks of epoch ", epoch, " are being ended: ", job.reason()));
  }
  if (asked.manifest_digest().empty() || asked.path().empty()) {
    return Refused("a checkpoint has a path and a manifest digest");
  }
  const int64_t last = std::max(job.target_step(), job.epoch_steps());
  if (asked.step() < 1 || asked.step() > last) {
    return Refused(absl::StrCat("step ", asked.step(), " is none of the job's 1 to ", last));
  }
  if (job.has_checkpoint() && asked.step() <= recorded.step()) {
    return Refused(absl::StrCat("the checkpoint of step ", recorded.step(), " is recorded; step ",
                                asked.step(), " comes too late"));
  }
  return {CommitVerdict::kRecord, ""};
}

}  // namespace strata::controller
