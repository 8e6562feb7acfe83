// The half of the session handler that finds jobs again after their records came from a backup.
//
// Since the backup a job's ranks may have been started anew, in epochs that its record does not
// know. Agents that hold such an epoch claim it; when the claims of all its ranks are there, it is
// the job's epoch, and no step is lost. A job is neither started nor given up before its agents
// have had the time to come.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"
#include "controller/logic/restored_store.h"
#include "controller/logic/session_handler.h"

namespace strata::controller {
namespace {

// Whether the claims are of all ranks, each once.
bool IsWhole(const Claims& claims) {
  std::set<int> ranks;
  size_t count = 0;
  for (const auto& [node, member] : claims.members) {
    ranks.insert(member.ranks.begin(), member.ranks.end());
    count += member.ranks.size();
  }
  return claims.ranks > 0 && static_cast<int64_t>(count) == claims.ranks &&
         static_cast<int64_t>(ranks.size()) == claims.ranks && *ranks.begin() == 0 &&
         *ranks.rbegin() == claims.ranks - 1;
}

int64_t StepOf(const v1::AgentMessage& message) {
  return message.has_written() ? message.written().step() : 0;
}

// One more word of a node about an epoch that is claimed and not yet the job's.
void Keep(const v1::AgentMessage& message, std::vector<v1::AgentMessage>& words) {
  std::erase_if(words, [&](const v1::AgentMessage& word) {
    return word.message_case() == message.message_case() && StepOf(word) == StepOf(message);
  });
  words.push_back(message);
  const auto written = [](const v1::AgentMessage& word) { return word.has_written(); };
  const auto steps = static_cast<size_t>(std::count_if(words.begin(), words.end(), written));
  if (steps <= protocol::FragmentBook::kMostSteps) return;
  const auto older = [&](const auto& a, const auto& b) {
    return a.has_written() != b.has_written() ? a.has_written() : StepOf(a) < StepOf(b);
  };
  words.erase(std::min_element(words.begin(), words.end(), older));
}

std::string OtherSteps(int64_t steps) {
  return absl::StrCat("its train.steps are ", steps, ", as changed after the backup");
}

const v1::JobEpoch* EpochOf(const v1::AgentMessage& message) {
  switch (message.message_case()) {
    case v1::AgentMessage::kPrepared:
      return &message.prepared().epoch();
    case v1::AgentMessage::kRunning:
      return &message.running().epoch();
    case v1::AgentMessage::kProgress:
      return &message.progress().epoch();
    case v1::AgentMessage::kEnded:
      return &message.ended().epoch();
    case v1::AgentMessage::kStopping:
      return &message.stopping().epoch();
    case v1::AgentMessage::kWritten:
      return &message.written().epoch();
    case v1::AgentMessage::kCommit:
      return &message.commit().epoch();
    case v1::AgentMessage::kHang:
      return &message.hang().epoch();
    default:
      return nullptr;
  }
}

}  // namespace

bool SessionHandler::IsClaimed(const NodeEntry& node, const v1::JobEpoch& epoch) const {
  const JobEntry* job = state_.Find(epoch.job());
  return job != nullptr && job->claims.has_value() && job->claims->key == KeyOf(epoch) &&
         job->claims->members.contains(node.name);
}

bool SessionHandler::Claim(NodeEntry& node, const v1::HeldEpoch& held) {
  JobEntry* job = state_.Find(held.epoch().job());
  if (job == nullptr || !state_.IsAwaited(*job) || IsTerminal(job->record.state())) return false;
  const EpochKey key = ToKey(held.epoch());
  // A suspended job's own ranks were being stopped; later ones are there because it was resumed.
  const bool later = key.epoch > job->record.epoch() ||
                     (key.epoch == job->record.epoch() && !HasEpoch(job->record.state()) &&
                      !job->record.suspended());
  if (key.uid != job->record.uid() || !later || !held.started() || held.ranks().empty() ||
      held.devices_size() != held.ranks_size()) {
    return false;
  }
  if (job->claims.has_value() && job->claims->key.epoch > key.epoch) return false;
  if (!job->claims.has_value() || job->claims->key != key) {
    machine_.DropClaims(*job);
    job->claims = Claims{.key = key,
                         .ranks = held.job_ranks(),
                         .steps = held.steps(),
                         .order = {held.rank_order().begin(), held.rank_order().end()}};
  }
  Member& member = job->claims->members[node.name];
  member.ranks = {held.ranks().begin(), held.ranks().end()};
  member.devices = {held.devices().begin(), held.devices().end()};
  member.state = held.running() ? MemberState::kRunning : MemberState::kStarted;
  job->claims->step = std::max(job->claims->step, held.step());
  Hold& hold = node.holds[key];
  hold.devices = member.devices;
  hold.all_devices = false;
  return true;
}

// By heartbeats alone: agents also list epochs whose end they have yet to tell.
void SessionHandler::NoteFound(JobEntry& job, const NodeEntry& node) const {
  if (!job.record.restored() || job.found) return;
  job.run.members.at(node.name).alive = true;
  job.found = std::all_of(job.run.members.begin(), job.run.members.end(),
                          [](const auto& member) { return member.second.alive; });
}

bool SessionHandler::KeepForLater(const NodeEntry& node, const v1::AgentMessage& message) {
  const v1::JobEpoch* epoch = EpochOf(message);
  if (epoch == nullptr || !IsClaimed(node, *epoch)) return false;
  Claims& claims = *state_.Find(epoch->job())->claims;
  if (!message.has_progress() && !message.has_hang()) Keep(message, claims.words[node.session]);
  return true;
}

void SessionHandler::AdoptClaimed(const NodeEntry& node) {
  std::vector<std::string> whole;
  for (const auto& [key, hold] : node.holds) {
    const JobEntry* job = state_.Find(key.job);
    if (IsClaimed(node, ToProto(key)) && IsWhole(*job->claims)) whole.push_back(key.job);
  }
  for (const std::string& name : whole) {
    JobEntry& job = *state_.Find(name);
    const auto words = std::move(job.claims->words);
    machine_.TakeClaimed(job);
    for (const auto& [session, said] : words) {
      for (const v1::AgentMessage& message : said) {
        if (state_.nodes.OfSession(session) != nullptr) OnMessage(session, message);
      }
    }
    machine_.Reconcile(job);
  }
}

// Whether the message tells of one that the record, which came from a backup, does not know.
bool SessionHandler::IsNewer(const JobEntry& job, const v1::EpochPrepared& message) {
  return MayHaveUnknownCheckpoints(job.record) && message.has_newer_checkpoint() &&
         message.newer_checkpoint().step() > job.record.checkpoint().step();
}

// Ranks that were started since the backup and write a step that its checkpoint does not precede
// did not begin with it: since then it was damaged, and so was what is not older than their step.
void SessionHandler::DiscardGivenUp(JobEntry& job, int64_t written) {
  v1::JobRecord& record = job.record;
  const v1::CommittedCheckpoint& newest = record.checkpoint();
  if (!record.restored() || !record.has_checkpoint() || newest.epoch() >= record.epoch() ||
      newest.step() < written) {
    return;
  }
  v1::CheckpointProblem problem;
  for (const v1::CommittedCheckpoint& older : record.older_checkpoints()) {
    if (older.step() < written) problem.add_older_steps(older.step());
  }
  DiscardCheckpoint(problem, record);
  record.set_step(written);
  SaveJob(state_, job, effects_);
}

// Its steps may have been changed since the backup: those of the ranks that wrote it tell, if they
// were started since. It may lie beyond all that the record asks for. Instead of one that was given
// up it tells nothing new of them.
void SessionHandler::AdoptCheckpoint(JobEntry& job, const v1::EpochPrepared& message) {
  v1::JobRecord& record = job.record;
  const v1::CommittedCheckpoint& checkpoint = message.newer_checkpoint();
  const bool since =
      record.restored() && checkpoint.epoch() + kRestoredEpochs > record.least_epoch();
  const int64_t asked =
      since && message.newer_steps() > 0 ? message.newer_steps() : record.spec().train().steps();
  const int64_t steps = std::max(asked, checkpoint.step());
  const std::string changed =
      steps == record.target_step() ? "" : absl::StrCat("; ", OtherSteps(steps));
  JobMachine::SetSteps(job, steps);
  record.clear_restored();
  RecordCheckpoint(checkpoint, record);
  record.set_step(std::max(record.step(), checkpoint.step()));
  JobMachine::Report(
      job, {.reason = absl::StrCat("goes on from the checkpoint of step ", checkpoint.step(),
                                   ", which is newer than the backup that the controller's state "
                                   "was restored from",
                                   changed),
            .cause = "restored",
            .refused = true,
            .counts = false});
  machine_.Reconcile(job);
}

void JobMachine::SetSteps(JobEntry& job, int64_t steps) {
  job.record.mutable_spec()->mutable_train()->set_steps(steps);
  job.record.set_target_step(steps);
}

void JobMachine::DropClaims(JobEntry& job) {
  if (!job.claims.has_value()) return;
  const Claims claims = *std::exchange(job.claims, std::nullopt);
  for (const auto& [name, member] : claims.members) {
    NodeEntry* node = state_.nodes.Find(name);
    if (node == nullptr || !node->holds.contains(claims.key)) continue;
    Stop(*node, claims.key, "not all ranks of this epoch were found again after the restore",
         /*checkpoint=*/false);
  }
}

void JobMachine::TakeClaimed(JobEntry& job) {
  const Claims claims = *std::exchange(job.claims, std::nullopt);
  job.found = true;
  v1::JobRecord& record = job.record;
  LeaveGivenUp(job);
  // It was started since: what its ranks are to do is what was asked for last.
  const bool since = claims.key.epoch > record.epoch();
  std::vector<std::string> notices;
  if (since && claims.steps > 0 && claims.steps != record.target_step()) {
    SetSteps(job, claims.steps);
    notices.push_back(OtherSteps(claims.steps));
  }
  if (since && record.suspended()) {
    record.clear_suspended();
    notices.push_back("it was suspended in the backup, and resumed since");
  }
  record.set_attempt(record.attempt() + std::max<int64_t>(0, claims.key.epoch - record.epoch()));
  record.set_epoch(claims.key.epoch);
  record.set_epoch_steps(claims.steps);
  record.clear_preemption();
  record.clear_moving_to();
  record.clear_placement();
  std::map<int, std::pair<std::string, int>> places;  // by rank
  job.run = {};
  job.run.begun_at = state_.now;
  job.run.start_sent = true;
  job.run.notice = absl::StrJoin(notices, "; ");
  for (const auto& [name, member] : claims.members) {
    for (size_t i = 0; i < member.ranks.size(); ++i) {
      places[member.ranks[i]] = {name, member.devices[i]};
    }
    job.run.members[name] = member;
  }
  for (const auto& [rank, place] : places) {
    v1::RankPlace& told = *record.add_placement();
    told.set_rank(rank);
    told.set_node(place.first);
    told.set_device(place.second);
  }
  v1::RankLayout& layout = *record.mutable_layout();
  layout.Clear();
  layout.mutable_order()->Add(claims.order.begin(), claims.order.end());
  const int64_t cell = RanksOf(record.spec()) / DataDegree(record.spec());
  layout.set_data(claims.ranks / std::max<int64_t>(1, cell));
  layout.set_why("found again after the controller's state was restored");
  record.set_start_sent(true);
  record.set_step(std::clamp<int64_t>(claims.step, record.step(), GreatestStep(record)));
  AddEvent(job, "RUNNING",
           absl::StrCat("epoch ", claims.key.epoch, " was found again on ",
                        NodeList(job.run.members), ", after the controller's state was restored"),
           "restored");
  LoseNothing(job);
  record.set_state(v1::Job::STARTING);  // until all of its ranks are known to run
  record.set_reason(absl::StrCat("trains on ", NodeList(job.run.members)));
  SaveJob(state_, job, effects_);
}

}  // namespace strata::controller
