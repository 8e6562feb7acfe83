#include "controller/logic/session_handler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"
#include "protocol/data_files.h"

namespace strata::controller {
namespace {

// Epochs that one node may be said to hold: far more than devices, and yet bounded.
constexpr size_t kMostHolds = 1024;

void SetMemory(v1::JobRecord& job, const v1::JobPlan& plan) {
  job.set_parameters(plan.parameters());
  job.clear_predicted_memory();
  for (const v1::TierBytes& tier : plan.predicted()) {
    v1::TierMemory& memory = *job.add_predicted_memory();
    memory.set_tier(tier.tier());
    memory.set_predicted_bytes(tier.bytes());
    *memory.mutable_slots() = tier.slots();
  }
}

// `first`: this is what the node said when it was first heard of in this controller's term.
Failure EndedFailure(const NodeEntry& node, const v1::EpochEnded& message, bool first) {
  Failure failure;
  failure.sure = !message.echo() && message.rank() >= 0;
  if (failure.sure) failure.node = node.name;
  failure.cause = message.cause().empty() ? "trainer_died" : message.cause();
  failure.counts = failure.cause != "node_lost" && failure.cause != "user";
  if (message.has_checkpoint_problem()) failure.checkpoint = message.checkpoint_problem();
  failure.reason = message.finished().message();
  if (failure.reason.empty()) {
    failure.reason =
        message.rank() < 0
            ? absl::StrCat("the ranks on ", ShortName(node.name), " ended")
            : absl::StrCat("rank ", message.rank(), " on ", ShortName(node.name), " ended");
  }
  if (message.storage()) failure.BlameStorage();
  if (first && message.found()) {
    // Controller, agent and ranks were all gone: see restart_policy.h.
    failure.sure = true;
    failure.node.clear();
    failure.cause = "cluster_restart";
    failure.counts = false;
    absl::StrAppend(&failure.reason, ", as was found when the controller had been restarted");
  }
  return failure;
}

// All nodes of a job, at each start of its ranks, must find the files that it began with. Returns
// what is different on this one, or nothing. Agents of before there were data files tell of none.
std::string CompareData(JobEntry& job, const NodeEntry& node, const v1::JobPlan& plan) {
  if (plan.data_files().empty()) return "";
  const std::string on = absl::StrCat(" (on ", ShortName(node.name), ")");
  if (const protocol::DataFiles& began = job.record.data_files(); !began.empty()) {
    const std::string change = protocol::ChangeOf(began, plan.data_files());
    if (change.empty()) return "";
    return absl::StrCat("not what the job began with: ", change, on, " — ",
                        protocol::kChangedDataAdvice);
  }
  if (job.run.data_node.empty()) {
    job.run.data_files = plan.data_files();
    job.run.data_node = node.name;
    return "";
  }
  const std::string change = protocol::ChangeOf(job.run.data_files, plan.data_files());
  if (change.empty()) return "";
  return absl::StrCat("not the same on all nodes: ", change, on, ", compared with ",
                      ShortName(job.run.data_node), " — give all nodes the same copy");
}

}  // namespace

void SessionHandler::OnMessage(uint64_t session, const v1::AgentMessage& message) {
  if (message.has_register_()) {
    return OnRegister(session, message.incarnation(), message.register_());
  }
  NodeEntry* node = state_.nodes.OfSession(session);
  if (node == nullptr || node->incarnation != message.incarnation()) {
    // Whoever still listens there believes to be at work: let it come anew.
    return Dismiss("", message.incarnation(), session,
                   "this session is not its node's present one");
  }
  Hear(*node);
  if (KeepForLater(*node, message)) return;
  switch (message.message_case()) {
    case v1::AgentMessage::kHeartbeat:
      return OnHeartbeat(*node, message.heartbeat());
    case v1::AgentMessage::kPrepared:
      return OnPrepared(*node, message.prepared());
    case v1::AgentMessage::kRunning:
      return OnRunning(*node, message.running());
    case v1::AgentMessage::kProgress:
      return OnProgress(*node, message.progress());
    case v1::AgentMessage::kEnded:
      return OnEnded(*node, message.ended());
    case v1::AgentMessage::kStopping:
      return OnStopping(*node, message.stopping());
    case v1::AgentMessage::kWritten:
      return OnWritten(*node, message.written());
    case v1::AgentMessage::kCommit:
      return OnCommit(*node, message.commit());
    case v1::AgentMessage::kHang:
      return OnHang(*node, message.hang());
    case v1::AgentMessage::kLeaving:
      return OnLeaving(*node);
    case v1::AgentMessage::kHandingOver:
      node->handing_over = true;
      return;
    default:
      return;  // logs are not the logic's business
  }
}

void SessionHandler::Hear(NodeEntry& node) {
  if (!node.met) state_.cluster_changed = true;
  node.met = true;
  node.gone = false;
  node.heard_at = state_.ListeningNow();
  node.heard_wall = state_.wall;
  node.earlier_silence = 0;
  if (node.state == v1::Node::READY) return;
  node.state = v1::Node::READY;
  if (std::exchange(node.silence_written, false)) {
    SaveNode(state_, node, effects_);
  } else {
    TellNode(state_, node, effects_);
  }
  state_.capacity_changed = true;
}

EpochKey SessionHandler::KeyOf(const v1::JobEpoch& epoch) const {
  EpochKey key = ToKey(epoch);
  const JobEntry* job = state_.Find(key.job);
  if (key.uid.empty() && job != nullptr) key.uid = job->record.uid();
  return key;
}

JobEntry* SessionHandler::Current(const NodeEntry& node, const v1::JobEpoch& epoch) {
  TakeBack(node, epoch);
  JobEntry* job = state_.Find(epoch.job());
  if (job == nullptr || !HasEpoch(job->record.state()) || job->key() != KeyOf(epoch)) {
    return nullptr;
  }
  const auto member = job->run.members.find(node.name);
  const bool there =
      member != job->run.members.end() && member->second.state != MemberState::kEnded;
  return there ? job : nullptr;
}

void SessionHandler::TakeBack(const NodeEntry& node, const v1::JobEpoch& epoch) {
  JobEntry* job = state_.Find(epoch.job());
  if (job == nullptr || !job->given_up.has_value() || job->key() != KeyOf(epoch)) return;
  if (job->given_up->run.members.contains(node.name)) machine_.TakeBack(*job, node);
}

JobEntry* SessionHandler::CurrentOrStop(NodeEntry& node, const v1::JobEpoch& epoch, bool alive) {
  JobEntry* job = Current(node, epoch);
  if (job == nullptr) StopStale(node, epoch, alive);
  return job;
}

// Agents repeat these many at a time, also of epochs that have ended there: one answer to each
// would be a storm.
JobEntry* SessionHandler::CurrentOrOver(NodeEntry& node, const v1::JobEpoch& epoch) {
  JobEntry* job = Current(node, epoch);
  if (job == nullptr && node.holds.contains(KeyOf(epoch))) StopStale(node, epoch, /*alive=*/false);
  return job;
}

void SessionHandler::StopStale(NodeEntry& node, const v1::JobEpoch& epoch, bool alive) {
  const EpochKey key = KeyOf(epoch);
  const auto found = node.holds.find(key);
  if (found != node.holds.end() && found->second.stop.has_value()) {
    if (state_.now > found->second.stop_sent_at + state_.timing.heartbeat_seconds) {
      machine_.SendStop(node, found->second);
    }
    return;
  }
  const std::string reason = absl::StrCat("epoch ", key.epoch, " of ", key.job, " is over");
  if (alive && found == node.holds.end() && node.holds.size() < kMostHolds) {
    node.holds[key].all_devices = true;
  }
  if (node.holds.contains(key)) return machine_.Stop(node, key, reason, /*checkpoint=*/false);
  Hold none;
  none.stop.emplace();
  *none.stop->mutable_epoch() = epoch;
  none.stop->set_reason(reason);
  machine_.SendStop(node, none);
}

bool SessionHandler::IsPlaced(const v1::JobRecord& job, const NodeEntry& node, int rank) {
  const auto here = [&](const v1::RankPlace& place) { return place.node() == node.name; };
  if (rank >= 0) return rank < job.placement_size() && here(job.placement(rank));
  return std::any_of(job.placement().begin(), job.placement().end(), here);
}

bool SessionHandler::HasRank(const JobEntry& job, const NodeEntry& node, int rank) {
  const std::vector<int>& ranks = job.run.members.at(node.name).ranks;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// A step is told live and becomes durable with the record's next change.
void SessionHandler::ReachedStep(JobEntry& job, int64_t step) {
  v1::JobRecord& record = job.record;
  const int64_t before = record.step();
  record.set_step(std::clamp(step, before, std::max(before, GreatestStep(record))));
  if (record.step() != before) state_.changed_jobs.insert(record.name());
  KeepPace(job, before);
  if (record.step() == 0 || record.has_start_time()) return;
  *record.mutable_start_time() = ToTimestamp(state_.wall);
  SaveJob(state_, job, effects_);
}

void SessionHandler::KeepPace(JobEntry& job, int64_t before) const {
  if (job.record.step() == before) return;
  job.run.stepped_at = state_.now;
  if (job.run.paced) return;
  job.run.paced = true;
  job.run.pace_step = job.record.step();
  job.run.paced_at = state_.now;
}

void SessionHandler::Compare(JobEntry& job, const NodeEntry& node, const v1::StepRecord& step) {
  const std::optional<planner::ComparedSteps> compared = job.run.comparison.Add(step);
  if (!compared.has_value()) return;
  const v1::JobRecord& record = job.record;
  const v1::ModelSpec& model = record.has_model() ? record.model() : record.spec().model();
  // As its ranks run, which may be with a smaller data degree than was asked for.
  const v1::JobSpec spec = SpecWithData(record.spec(), record.layout().data());
  state_.plan_families.Learn(planner::FamilyOf(spec, model, node.kind), *compared, state_.wall,
                             effects_);
}

void SessionHandler::OnHeartbeat(NodeEntry& node, const v1::Heartbeat& message) {
  if (message.device_states_size() > 0) TakeDeviceStates(node, message.device_states());
  for (const v1::Heartbeat::Rank& rank : message.ranks()) {
    if (IsClaimed(node, rank.epoch())) continue;
    NoteStorage(node, rank);
    JobEntry* job = CurrentOrStop(node, rank.epoch(), /*alive=*/true);
    if (job == nullptr) continue;
    NoteFound(*job, node);
    CountUnheard(state_, *job);
    ReachedStep(*job, rank.step());
    if (HasRank(*job, node, rank.rank())) job->run.phases[rank.rank()] = rank.phase();
  }
}

// Ranks on a device that has become unhealthy are ended by their agent.
void SessionHandler::TakeDeviceStates(
    NodeEntry& node, const google::protobuf::RepeatedPtrField<v1::DeviceState>& states) {
  constexpr size_t kMostReasonBytes = 200;
  std::map<int, std::string> unhealthy;
  for (const v1::DeviceState& state : states) {
    const bool known = state.device() >= 0 && state.device() < node.devices;
    if (!known || state.health() != v1::DeviceState::UNHEALTHY) continue;
    unhealthy[state.device()] = state.reason().substr(0, kMostReasonBytes);
  }
  if (unhealthy == node.unhealthy) return;
  node.unhealthy = std::move(unhealthy);
  state_.capacity_changed = true;
  TellNode(state_, node, effects_);
}

void SessionHandler::OnPrepared(NodeEntry& node, const v1::EpochPrepared& message) {
  JobEntry* job = CurrentOrStop(node, message.epoch(), /*alive=*/message.problem().empty());
  if (job == nullptr || job->record.state() != v1::Job::STARTING) return;
  if (IsNewer(*job, message)) return AdoptCheckpoint(*job, message);
  Member& member = job->run.members.at(node.name);
  if (!message.problem().empty()) {
    const std::string field =
        message.problem_field().empty() ? "" : absl::StrCat(message.problem_field(), ": ");
    Failure failure = {
        .reason = absl::StrCat(field, message.problem(), " (on ", ShortName(node.name), ")"),
        .cause = "start_failed",
        .permanent = message.permanent(),
        .refused = true,
        .node = node.name};
    if (message.has_checkpoint_problem()) failure.checkpoint = message.checkpoint_problem();
    JobMachine::Report(*job, std::move(failure));
    return machine_.Reconcile(*job);
  }
  if (message.plan().notices_size() > 0 && job->run.notice.empty()) {
    job->run.notice =
        absl::StrCat(message.plan().notices(0).text(), " (on ", ShortName(node.name), ")");
  }
  std::set<int> answered;
  for (const v1::EpochPrepared::Rank& rank : message.ranks()) answered.insert(rank.rank());
  const bool complete = answered == std::set<int>(member.ranks.begin(), member.ranks.end());
  if (!complete) {
    JobMachine::Report(*job, {.reason = absl::StrCat(ShortName(node.name),
                                                     " prepared other ranks than it was asked for"),
                              .cause = "start_failed"});
    return machine_.Reconcile(*job);
  }
  if (job->run.start_sent) return;  // a late repetition
  if (const std::string change = CompareData(*job, node, message.plan()); !change.empty()) {
    JobMachine::Report(*job, {.reason = change, .cause = "data_changed", .permanent = true});
    return machine_.Reconcile(*job);
  }
  for (const v1::EpochPrepared::Rank& rank : message.ranks()) {
    job->run.prepared[rank.rank()] = rank.prepared();
  }
  if (member.state == MemberState::kAsked) member.state = MemberState::kPrepared;
  if (message.has_plan()) SetMemory(job->record, message.plan());
  // Before the last one nothing follows, and looking for that at all members each time adds up.
  const int ranks = job->record.placement_size();
  if (static_cast<int>(job->run.prepared.size()) == ranks) machine_.Reconcile(*job);
}

void SessionHandler::OnRunning(NodeEntry& node, const v1::EpochRunning& message) {
  JobEntry* job = CurrentOrStop(node, message.epoch(), /*alive=*/true);
  if (job == nullptr) return;
  job->run.members.at(node.name).state = MemberState::kRunning;
  machine_.Reconcile(*job);
}

void SessionHandler::OnProgress(NodeEntry& node, const v1::EpochProgress& message) {
  JobEntry* job = CurrentOrOver(node, message.epoch());
  if (job == nullptr) return;
  if (message.progress().has_job()) return;  // what becomes of jobs is not for agents to say
  if (message.progress().has_step()) {
    ReachedStep(*job, message.progress().step().step());
    Compare(*job, node, message.progress().step());
  }
  effects_.progress.push_back({job->record.name(), message.progress()});
}

void SessionHandler::OnEnded(NodeEntry& node, const v1::EpochEnded& message) {
  const EpochKey key = KeyOf(message.epoch());
  JobEntry* job = Current(node, message.epoch());
  const bool asked = job != nullptr && job->run.members.at(node.name).state == MemberState::kAsked;
  if (!asked) {
    if (node.holds.erase(key) > 0) state_.capacity_changed = true;
  } else if (node.holds.contains(key)) {
    // The request to prepare may be on its way a second time: its end is waited for.
    machine_.Stop(node, key, "its ranks have ended", /*checkpoint=*/false);
  }
  const v1::Finished::Outcome outcome = message.finished().outcome();
  if (job == nullptr) {
    job = state_.Find(key.job);
    if (job == nullptr || job->record.state() != v1::Job::RECOVERING || job->key() != key) return;
    if (!IsPlaced(job->record, node, std::max(message.rank(), -1))) return;
    const Failure failure = EndedFailure(node, message, /*first=*/false);
    if (outcome == v1::Finished::FAILED && failure.sure) machine_.Attribute(*job, failure);
    return;
  }
  Member& member = job->run.members.at(node.name);
  member.state = MemberState::kEnded;
  const bool expected = outcome == v1::Finished::SUCCEEDED ||
                        (outcome == v1::Finished::INTERRUPTED &&
                         (machine_.IsToEnd(*job) || job->record.has_preemption()));
  if (!expected) JobMachine::Report(*job, EndedFailure(node, message, member.first_heard));
  machine_.Reconcile(*job);
}

void SessionHandler::OnStopping(NodeEntry& node, const v1::EpochStopping& message) {
  JobEntry* job = CurrentOrStop(node, message.epoch(), /*alive=*/false);
  if (job == nullptr) return;
  job->run.members.at(node.name).stopping_at = message.step();
  if (job->run.last_step.has_value()) return machine_.SendStopAfter(*job, node);
  if (!machine_.IsToEnd(*job) && !job->record.has_preemption()) {
    machine_.StopForItself(*job, "stopped, as was wished after the backup was taken,");
  }
  machine_.Reconcile(*job);
}

void SessionHandler::OnWritten(NodeEntry& node, const v1::CheckpointFragments& message) {
  JobEntry* job = CurrentOrOver(node, message.epoch());
  if (job == nullptr) return;
  const v1::JobRecord& record = job->record;
  DiscardGivenUp(*job, message.step());
  if (message.step() <= record.checkpoint().step() || message.step() > GreatestStep(record)) {
    return;
  }
  google::protobuf::Map<int32_t, std::string> own;  // nobody speaks for other nodes' ranks
  for (const auto& [rank, fragment] : message.fragments()) {
    if (HasRank(*job, node, rank)) own[rank] = fragment;
  }
  auto whole = job->run.fragments.Add(message.step(), own, record.placement_size());
  if (whole.has_value()) {
    machine_.SendManifest(*job, ManifestOf(message.epoch(), *std::move(whole)));
  }
}

void SessionHandler::OnCommit(NodeEntry& node, const v1::CommitRequest& message) {
  JobEntry* job = state_.Find(message.epoch().job());
  CommitJudgement judgement;
  if (job == nullptr) {
    judgement.reason = absl::StrCat("there is no ", message.epoch().job());
  } else {
    judgement = JudgeCommit(job->record, message);
  }
  const bool current = CurrentOrStop(node, message.epoch(), /*alive=*/false) != nullptr;
  if (judgement.verdict == CommitVerdict::kRecord && !current) {
    judgement = {CommitVerdict::kRefused, "its ranks on this node have ended"};
  }
  if (judgement.verdict == CommitVerdict::kRecord && !HasRank(*job, node, 0)) {
    judgement = {CommitVerdict::kRefused, absl::StrCat("only the node of rank 0 commits, and ",
                                                       ShortName(node.name), " has other ranks")};
  }
  if (judgement.verdict == CommitVerdict::kRecord) {
    v1::CommittedCheckpoint checkpoint = message.checkpoint();
    checkpoint.set_epoch(message.epoch().epoch());
    job->record.clear_restored();
    RecordCheckpoint(checkpoint, job->record);
    job->record.set_restarts_without_progress(0);
    job->record.set_step(std::max(job->record.step(), checkpoint.step()));
    job->run.fragments.Forget(checkpoint.step());
    job->run.checkpoint_at = state_.now;
    v1::JobEvent event = MakeEvent(state_, job->record, "CHECKPOINT", checkpoint.path(), node.name);
    event.set_step(checkpoint.step());
    TellEvent(*job, event, effects_);
    SaveJob(state_, *job, effects_);
  }
  v1::ControllerMessage answer;
  *answer.mutable_commit()->mutable_epoch() = message.epoch();
  answer.mutable_commit()->set_step(message.checkpoint().step());
  answer.mutable_commit()->set_accepted(judgement.verdict != CommitVerdict::kRefused);
  answer.mutable_commit()->set_reason(judgement.reason);
  Send(state_, node, std::move(answer), effects_);
}

// Its ranks are moved, or stopped at a checkpoint, as if it were drained; how long it waits for
// that is its own business.
void SessionHandler::OnLeaving(NodeEntry& node) {
  if (node.leaving) return;
  node.leaving = true;
  state_.capacity_changed = true;
  TellNode(state_, node, effects_);
}

}  // namespace strata::controller
