// The half of the job machine that puts ranks on devices and speaks to their nodes.
#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"
#include "controller/logic/placement_view.h"

namespace strata::controller {
namespace {

// A placer is exchangeable: what it says is checked against what it saw.
bool Sound(const Placer::Decision& decision, const JobEntry& job, const Placer::View& view) {
  std::set<std::pair<std::string, int>> free, taken;
  for (const Placer::View::Node& node : view.nodes) {
    for (const int device : node.free) free.insert({node.name, device});
  }
  for (const Placer::Device& rank : decision.ranks) {
    if (!free.contains({rank.node, rank.device})) return false;
    if (!taken.insert({rank.node, rank.device}).second) return false;
  }
  return static_cast<int64_t>(decision.ranks.size()) == RanksOf(job.record.spec());
}

}  // namespace

void JobMachine::Stop(NodeEntry& node, const EpochKey& key, const std::string& reason,
                      bool checkpoint) {
  Hold& hold = node.holds.at(key);
  if (hold.stop.has_value() && (checkpoint || !hold.stop->checkpoint())) return;
  hold.stop.emplace();
  *hold.stop->mutable_epoch() = ToProto(key);
  hold.stop->set_reason(reason);
  hold.stop->set_checkpoint(checkpoint);
  SendStop(node, hold);
}

void JobMachine::SendStop(NodeEntry& node, Hold& hold) {
  hold.stop_sent_at = state_.now;
  v1::ControllerMessage message;
  *message.mutable_stop() = *hold.stop;
  Send(state_, node, std::move(message), effects_);
}

void JobMachine::SendPrepare(const JobEntry& job, const NodeEntry& node, const Member& member) {
  v1::ControllerMessage message;
  v1::PrepareEpoch& prepare = *message.mutable_prepare();
  *prepare.mutable_epoch() = ToProto(job.key());
  *prepare.mutable_spec() = job.record.spec();
  prepare.set_directory(job.record.directory());
  prepare.set_ranks(job.record.placement_size());
  prepare.mutable_own()->Add(member.ranks.begin(), member.ranks.end());
  prepare.mutable_devices()->Add(member.devices.begin(), member.devices.end());
  if (job.record.has_checkpoint()) *prepare.mutable_checkpoint() = job.record.checkpoint();
  const google::protobuf::Timestamp& created = job.record.create_time();
  prepare.set_owner(
      absl::StrCat(job.record.name(), " of ", created.seconds(), ".", created.nanos()));
  Send(state_, node, std::move(message), effects_);
}

SharedMessage JobMachine::StartMessage(const JobEntry& job) const {
  v1::ControllerMessage message;
  *message.mutable_start()->mutable_epoch() = ToProto(job.key());
  for (const auto& [rank, prepared] : job.run.prepared) {
    message.mutable_start()->add_addresses(prepared.address());
  }
  return Share(state_, std::move(message));
}

void JobMachine::SendStopAfter(const JobEntry& job, const NodeEntry& node) {
  v1::ControllerMessage message;
  *message.mutable_stop_after()->mutable_epoch() = ToProto(job.key());
  message.mutable_stop_after()->set_step(*job.run.last_step);
  Send(state_, node, std::move(message), effects_);
}

void JobMachine::SendManifest(const JobEntry& job, v1::WriteManifest manifest) {
  const NodeEntry* first = state_.nodes.Find(job.record.placement(0).node());
  v1::ControllerMessage message;
  *message.mutable_write_manifest() = std::move(manifest);
  Send(state_, *first, std::move(message), effects_);
}

bool JobMachine::MayStart(const JobEntry& job) const {
  if (state_.now < job.next_start_at) return false;
  if (state_.now > job.failed_at + state_.timing.stop_seconds) return true;
  // Nodes that are there will have ended the old ranks in a moment: then the new ones find their
  // devices, and what is cached, where they were.
  return std::none_of(job.record.placement().begin(), job.record.placement().end(),
                      [&](const v1::RankPlace& place) {
                        const NodeEntry* node = state_.nodes.Find(place.node());
                        return node != nullptr && node->Usable() && node->holds.contains(job.key());
                      });
}

bool JobMachine::TryStart(JobEntry& job, const Placer::View& view) {
  const Placer::Decision decision = state_.placer->Place(job.record.spec(), view);
  if (decision.ranks.empty() || !Sound(decision, job, view)) return false;
  Begin(job, decision.ranks);
  return true;
}

void JobMachine::Begin(JobEntry& job, const std::vector<Placer::Device>& ranks) {
  v1::Job& record = job.record;
  job.run = {};
  job.run.begun_at = state_.now;
  record.set_epoch(record.epoch() + 1);
  record.set_step(record.checkpoint().step());
  record.clear_placement();
  record.clear_start_sent();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    v1::RankPlace& place = *record.add_placement();
    place.set_rank(static_cast<int32_t>(rank));
    place.set_node(ranks[rank].node);
    place.set_device(ranks[rank].device);
    Member& member = job.run.members[ranks[rank].node];
    member.ranks.push_back(static_cast<int>(rank));
    member.devices.push_back(ranks[rank].device);
  }
  record.set_state(v1::STARTING);
  record.set_reason(absl::StrCat("its ranks are being started on ", NodeList(job.run.members)));
  SaveJob(state_, job, effects_);
  for (const auto& [name, member] : job.run.members) {
    NodeEntry& node = *state_.nodes.Find(name);
    node.holds[job.key()] = {.devices = member.devices};
    SendPrepare(job, node, member);
  }
}

void JobMachine::Schedule(JobEntry* fresh) {
  const bool changed = state_.capacity_changed;
  state_.capacity_changed = false;
  if (state_.cluster_changed) TellFeasibility();
  std::vector<std::tuple<double, std::string>> recovering;
  for (const std::string& name : state_.live) {
    JobEntry& job = state_.jobs.at(name);
    if (job.record.state() != v1::RECOVERING || (job.tried && !changed)) continue;
    if (MayStart(job)) recovering.push_back({job.failed_at, name});
  }
  if (recovering.empty() && !changed && fresh == nullptr) return;
  DeviceClaims claims = ClaimsOfRecovering(state_);
  std::sort(recovering.begin(), recovering.end());
  bool released = false;
  for (const auto& [failed_at, name] : recovering) {
    JobEntry& job = state_.jobs.at(name);
    job.tried = !TryStart(job, ViewFor(state_, &job, claims));
    released = released || !job.tried;
    if (!job.tried) claims = ClaimsOfRecovering(state_);
  }
  if (changed || released) return ScheduleQueue(claims);
  if (fresh != nullptr) TryStart(*fresh, ViewFor(state_, fresh, claims));
}

// Thousands may wait when one device becomes free: the view is made anew only when a job has taken
// something, jobs that need more than is free are not tried, and all is over when nothing is.
void JobMachine::ScheduleQueue(const DeviceClaims& claims) {
  Placer::View view = ViewFor(state_, nullptr, claims);
  int free = FreeIn(view);
  for (auto next = state_.queue.begin(); next != state_.queue.end() && free > 0;) {
    JobEntry& job = *next->second;
    ++next;  // a job that starts leaves the queue
    if (RanksOf(job.record.spec()) > free || !TryStart(job, view)) continue;
    view = ViewFor(state_, nullptr, claims);
    free = FreeIn(view);
  }
}

// Jobs that wait say whether the cluster, as it is now, could run them at all; they wait on either
// way, for nodes may come back.
void JobMachine::TellFeasibility() {
  const bool shrunk = state_.cluster_shrunk;
  state_.cluster_changed = state_.cluster_shrunk = false;
  const Placer::View view = ViewFor(state_, nullptr, {});
  for (const auto& [place, job] : state_.queue) {
    if (!shrunk && job->record.reason() == kWaitsForDevices) continue;
    const Placer::Decision decision = state_.placer->Place(job->record.spec(), view);
    const std::string reason = decision.infeasible ? decision.reason : kWaitsForDevices;
    if (job->record.reason() == reason) continue;
    job->record.set_reason(reason);
    SaveJob(state_, *job, effects_);
  }
}

}  // namespace strata::controller
