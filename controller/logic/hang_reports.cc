// The half of the session handler that finds out who holds up the others: who does not move, whose
// node is silent, and who waits for its storage.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/logic/job_events.h"
#include "controller/logic/names.h"
#include "controller/logic/session_handler.h"

namespace strata::controller {
namespace {

// A node may say more than anybody wants to read, or to keep.
constexpr size_t kMostDetailBytes = 8 << 10;

bool IsStorage(const std::string& phase) { return absl::StartsWith(phase, "storage: "); }

}  // namespace

// Given up while it was silent, for nobody knew of what: it is back, and waits for its storage.
void SessionHandler::NoteStorage(const NodeEntry& node, const v1::Heartbeat::Rank& rank) {
  if (!IsStorage(rank.phase())) return;
  JobEntry* job = state_.Find(rank.epoch().job());
  if (job == nullptr || job->record.state() != v1::Job::RECOVERING) return;
  if (job->key() != KeyOf(rank.epoch()) || job->given_up.has_value()) return;
  if (!IsPlaced(job->record, node, rank.rank())) return;
  Failure failure = {.reason = absl::StrCat("rank ", rank.rank(), " on ", ShortName(node.name),
                                            " waits for its storage: ", rank.phase())};
  failure.BlameStorage();
  machine_.Attribute(*job, failure);
}

int SessionHandler::Suspect(const JobEntry& job, const NodeEntry& reporter,
                            const v1::HangReport& message, bool& sure) const {
  const v1::JobRecord& record = job.record;
  const auto known = [&](int rank) { return rank >= 0 && rank < record.placement_size(); };
  sure = true;
  if (message.local()) return known(message.rank()) ? message.rank() : -1;
  std::vector<int> missing;
  for (const int rank : message.missing()) {
    if (known(rank)) missing.push_back(rank);
  }
  if (missing.empty() && known(message.rank())) missing.push_back(message.rank());
  if (missing.size() == 1) return missing.front();
  // Rather one on a silent node; else one that is not where the others wait.
  std::vector<int> elsewhere;
  for (const int rank : missing) {
    const NodeEntry* node = state_.nodes.Find(record.placement(rank).node());
    if (node == nullptr) continue;  // deleted since
    if (node != &reporter && IsSilent(*node)) return rank;
    const auto phase = job.run.phases.find(rank);
    if (phase != job.run.phases.end() && phase->second != message.instruction()) {
      elsewhere.push_back(rank);
    }
  }
  if (elsewhere.size() == 1) return elsewhere.front();
  sure = false;
  if (!elsewhere.empty()) return elsewhere.front();
  return missing.empty() ? -1 : missing.front();
}

void SessionHandler::TellSuspicion(JobEntry& job, const NodeEntry& reporter, int rank,
                                   const v1::HangReport& message) {
  const std::string who =
      rank < 0 ? "a rank"
               : absl::StrCat("rank ", rank, " on ", ShortName(job.record.placement(rank).node()));
  const std::string where =
      message.instruction().empty() ? "" : absl::StrCat(" in ", message.instruction());
  const std::string what =
      message.local() ? absl::StrCat(who, " does not move", where)
                      : absl::StrCat(who, " is waited for by ", ShortName(reporter.name), where);
  v1::JobEvent event = MakeEvent(state_, job.record, "SUSPECTED", what, reporter.name);
  event.set_detail(message.stack().substr(0, kMostDetailBytes));
  TellEvent(job, event, effects_);
}

// One whose agent hands over, or that has yet to find this controller, is expected within its
// lease: till then its silence proves nothing.
bool SessionHandler::IsSilent(const NodeEntry& node) const {
  const bool expected = node.handing_over || !node.met;
  if (expected && !LeaseIsOver(state_, node)) return false;
  return state_.SilenceOf(node) > 2 * state_.timing.heartbeat_seconds;
}

// Rank 0 goes on when its checkpoints are committed: that it does not come proves nothing of a node
// that cannot be heard, for neither can it hear that they are. Its lease decides.
bool SessionHandler::WaitsForCommits(const JobEntry& job) const {
  const v1::CommittedCheckpoint& last = job.record.checkpoint();
  const int unanswered = last.epoch() == job.record.epoch() ? 1 : 0;  // as far as rank 0 may know
  return job.run.fragments.CountAfter(last.step()) + unanswered >= protocol::kMostUncommitted;
}

bool SessionHandler::WaitsForStorage(const JobEntry& job, int rank) {
  const auto phase = job.run.phases.find(rank);
  return phase != job.run.phases.end() && IsStorage(phase->second);
}

void SessionHandler::OnHang(NodeEntry& node, const v1::HangReport& message) {
  JobEntry* job = Current(node, message.epoch());
  JobEntry* known = state_.Find(message.epoch().job());
  const bool late = known != nullptr && known->record.state() == v1::Job::RECOVERING &&
                    known->key() == KeyOf(message.epoch()) && IsPlaced(known->record, node);
  if (job == nullptr && !late) return StopStale(node, message.epoch(), /*alive=*/false);
  JobEntry& blamed = late ? *known : *job;
  // Of its own ranks a node knows how they are; of others only that they did not come.
  if (message.local() && !IsPlaced(blamed.record, node, std::max(message.rank(), 0))) return;
  Failure failure = {.cause = "hang"};
  const int rank = Suspect(blamed, node, message, failure.sure);
  const NodeEntry* culprit =
      rank < 0 ? nullptr : state_.nodes.Find(blamed.record.placement(rank).node());
  if (message.suspected()) return TellSuspicion(blamed, node, rank, message);
  const bool silent = culprit != nullptr && IsSilent(*culprit);
  // Its node may be lost, or stand still for its storage: it says so if it comes back.
  if (silent && WaitsForStorage(blamed, rank)) failure.sure = false;
  if (message.tentative() && (!silent || WaitsForCommits(blamed))) return;
  if (!message.local() && !silent && WaitsForStorage(blamed, rank)) return;
  if (culprit != nullptr && failure.sure) failure.node = culprit->name;
  failure.reason =
      culprit == nullptr ? "a rank" : absl::StrCat("rank ", rank, " on ", ShortName(culprit->name));
  std::string place = message.group().empty() ? "" : absl::StrCat("group ", message.group());
  if (!message.instruction().empty()) {
    absl::StrAppend(&place, place.empty() ? "" : ", ", "instruction ", message.instruction());
  }
  if (message.local()) {
    absl::StrAppend(&failure.reason,
                    message.stopped()
                        ? ": its process was stopped,"
                        : absl::StrFormat(" has not moved for %.1f s", message.seconds()),
                    place.empty() ? "" : " in ", place);
  } else {
    absl::StrAppend(&failure.reason, " is missing", place.empty() ? "" : " in ", place,
                    absl::StrFormat(", where %s has waited for %.1f s", ShortName(node.name),
                                    message.seconds()));
    if (culprit != nullptr && culprit != &node && IsSilent(*culprit)) {
      failure.cause = "node_lost";
      absl::StrAppend(&failure.reason,
                      absl::StrFormat("; %s has not been heard from for %.1f s",
                                      ShortName(culprit->name), state_.SilenceOf(*culprit)));
    }
  }
  if (message.storage()) failure.BlameStorage();
  failure.detail = message.stack().substr(0, kMostDetailBytes);
  if (late) {
    if (failure.sure) machine_.Attribute(blamed, failure);
    return;
  }
  JobMachine::Report(blamed, std::move(failure));
  machine_.Reconcile(blamed);
}

}  // namespace strata::controller
