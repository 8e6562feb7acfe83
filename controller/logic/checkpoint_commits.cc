#include "controller/logic/checkpoint_commits.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

v1::WriteManifest Manifest(const v1::JobEpoch& epoch, int64_t step,
                           const std::map<int, std::string>& fragments) {
  v1::WriteManifest manifest;
  *manifest.mutable_epoch() = epoch;
  manifest.set_step(step);
  for (const auto& [rank, fragment] : fragments) manifest.add_fragments(fragment);
  return manifest;
}

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

int FragmentBook::CountAfter(int64_t step) const {
  return static_cast<int>(std::distance(by_step_.upper_bound(step), by_step_.end()));
}

std::optional<v1::WriteManifest> FragmentBook::Add(const v1::CheckpointFragments& written,
                                                   int ranks) {
  std::map<int, std::string>& fragments = by_step_[written.step()];
  for (const auto& [rank, fragment] : written.fragments()) {
    if (rank >= 0 && rank < ranks) fragments[rank] = fragment;
  }
  std::optional<v1::WriteManifest> complete;
  if (static_cast<int>(fragments.size()) == ranks) {
    complete = Manifest(written.epoch(), written.step(), fragments);
  }
  while (by_step_.size() > kMostSteps) by_step_.erase(by_step_.begin());
  return complete;
}

std::optional<v1::WriteManifest> FragmentBook::Complete(const v1::JobEpoch& epoch,
                                                        int ranks) const {
  for (auto found = by_step_.rbegin(); found != by_step_.rend(); ++found) {
    if (static_cast<int>(found->second.size()) == ranks) {
      return Manifest(epoch, found->first, found->second);
    }
  }
  return std::nullopt;
}

bool FragmentBook::Has(int64_t step, const std::vector<int>& ranks) const {
  const auto found = by_step_.find(step);
  return found != by_step_.end() && std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
           return found->second.contains(rank);
         });
}

bool FragmentBook::HasAllOf(const std::vector<int>& ranks) const {
  return std::all_of(by_step_.begin(), by_step_.end(),
                     [&](const auto& entry) { return Has(entry.first, ranks); });
}

void FragmentBook::Forget(int64_t step) {
  by_step_.erase(by_step_.begin(), by_step_.upper_bound(step));
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
