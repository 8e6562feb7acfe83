// The half of the session handler that deals with a node's (re-)appearance.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/logic/session_handler.h"
#include "protocol/versions.h"

namespace strata::controller {
namespace {

constexpr int kMostHeld = 1024;
constexpr int kMostLevels = 16;

}  // namespace

void SessionHandler::OnRegister(uint64_t session, uint64_t incarnation,
                                const v1::Register& message) {
  if (!Admit(session, incarnation, message)) return;
  state_.join_tokens.Forget(message.node(), effects_);
  NodeEntry& node = state_.nodes.Ensure(NodeName(message.node()));
  const bool restarted = node.incarnation != incarnation;
  const bool stays = restarted && std::exchange(node.leaving, false);
  node.handing_over = false;
  if (restarted && node.incarnation != 0) {
    if (node.session != 0 && node.session != session) {
      v1::ControllerMessage dismiss;
      dismiss.mutable_dismiss()->set_reason(
          absl::StrCat("another agent has registered as ", ShortName(node.name)));
      Send(state_, node, std::move(dismiss), effects_);
    }
    node.replaced.push_back(node.incarnation);
    if (node.replaced.size() > NodeEntry::kMostReplaced) node.replaced.pop_front();
  }
  state_.nodes.Attach(node, session);
  node.incarnation = incarnation;
  UpdateNode(node, message);
  TakeDeviceStates(node, message.device_states());
  if (stays) TellNode(state_, node, effects_);
  const bool first = !node.met;
  Hear(node);
  state_.capacity_changed = true;
  if (state_.restored_until > 0) {  // counted from the first agent on
    state_.restored_until =
        std::min(state_.restored_until, state_.now + state_.timing.lease_seconds);
  }

  v1::ControllerMessage answer;
  v1::Welcome& welcome = *answer.mutable_welcome();
  welcome.set_heartbeat_seconds(state_.timing.heartbeat_seconds);
  welcome.set_lease_seconds(state_.timing.lease_seconds);
  *welcome.mutable_protocol() = state_.protocol;
  welcome.set_cluster(state_.identity.cluster());
  welcome.set_store_incarnation(state_.identity.incarnation());
  *welcome.mutable_earlier_incarnations() = state_.identity.earlier();
  welcome.set_orphan_seconds(state_.policy.timing().orphan_seconds());
  *welcome.mutable_timing() = state_.policy.timing();
  const std::map<EpochKey, Hold> before = std::move(node.holds);
  node.holds.clear();
  for (const v1::HeldEpoch& held : message.held()) {  // what is known of their devices stays known
    const auto found = before.find(KeyOf(held.epoch()));
    if (found != before.end()) node.holds.insert(*found);
  }
  TakeHeld(node, message, first, welcome);
  MissEpochs(node, before, first);
  Send(state_, node, std::move(answer), effects_);
  Repeat(node);
  AdoptClaimed(node);
}

// Its trainers go on: it comes again until it is upgraded, or told where it belongs.
absl::Status SessionHandler::MayJoin(const v1::Register& message) const {
  if (const auto common =
          protocol::CommonVersion(message.protocol(), message.node(), state_.protocol);
      !common.ok()) {
    return Refusal(absl::StatusCode::kFailedPrecondition, "OTHER_PROTOCOL",
                   std::string(common.status().message()));
  }
  const std::string name = NodeName(message.node());
  const auto most = static_cast<size_t>(state_.policy.scheduling().max_nodes());
  const bool is_new = !name.empty() && std::as_const(state_.nodes).Find(name) == nullptr;
  if (is_new && state_.nodes.all().size() >= most) {
    return Refusal(
        absl::StatusCode::kResourceExhausted, "TOO_MANY_NODES",
        absl::StrCat("the cluster has ", state_.nodes.all().size(),
                     " nodes, and scheduling.max_nodes allows ", most, ": ", message.node(),
                     " is not taken as one more — delete lost ones (strata delete "
                     "node NAME), lower timing.forget_node_seconds, or raise the limit "
                     "(strata apply)"));
  }
  const std::string& ours = state_.identity.cluster();
  if (message.cluster().empty() || message.cluster() == ours) return absl::OkStatus();
  return Refusal(absl::StatusCode::kFailedPrecondition, "OTHER_CLUSTER",
                 absl::StrCat(message.node(), " belongs to cluster ", message.cluster(),
                              ", this controller's is ", ours,
                              ": give it the address of its own, or start its agent with --rejoin "
                              "(which takes effect while it holds no trainers)"));
}

// Whether this agent may speak for its node; it is told if not.
bool SessionHandler::Admit(uint64_t session, uint64_t incarnation, const v1::Register& message) {
  if (const absl::Status joins = MayJoin(message); !joins.ok()) {
    effects_.refused.push_back({session, joins});
    return false;
  }
  const std::string name = NodeName(message.node());
  std::string problem;
  if (name.empty()) {
    problem = "a node's name is 1 to 63 letters, digits, '-', '.' and '_'";
  } else if (incarnation == 0) {
    problem = "an incarnation is not 0";
  } else if (message.devices() < 1 || message.devices() > topology::kMostDevices) {
    problem = absl::StrCat("a node has 1 to ", topology::kMostDevices, " devices, not ",
                           message.devices());
  } else if (message.device().empty()) {
    problem = "a node's devices are of a kind, such as cpu";
  } else if (message.held_size() > kMostHeld || message.locality_size() > kMostLevels) {
    problem = "the node lists too much";
  } else if (const NodeEntry* node = state_.nodes.Find(name); node != nullptr) {
    const auto& gone = node->replaced;
    if (session < node->newest_session) {  // it was under way for longer than a newer one
      problem = absl::StrCat("a newer session of ", ShortName(name), " has registered");
    } else if (std::find(gone.begin(), gone.end(), incarnation) != gone.end()) {
      problem = absl::StrCat("another agent has registered as ", ShortName(name));
    }
  }
  if (problem.empty()) return true;
  Dismiss(name, incarnation, session, problem);
  return false;
}

void SessionHandler::Dismiss(const std::string& node, uint64_t incarnation, uint64_t session,
                             const std::string& reason) {
  v1::ControllerMessage message;
  message.mutable_dismiss()->set_reason(reason);
  effects_.messages.push_back({node, incarnation, session, Share(state_, std::move(message))});
}

void SessionHandler::UpdateNode(NodeEntry& node, const v1::Register& message) {
  const std::map<std::string, std::string> locality(message.locality().begin(),
                                                    message.locality().end());
  const bool same = node.resource_version != 0 && node.kind == message.device() &&
                    node.devices == message.devices() && node.locality == locality;
  if (const auto common = protocol::CommonVersion(message.protocol(), node.name, state_.protocol);
      common.ok()) {
    node.protocol = *common;
  }
  const int64_t host_memory = std::max<int64_t>(0, message.host_memory_bytes());
  const int64_t device_memory = std::max<int64_t>(0, message.device_memory_bytes());
  const bool as_built = node.version == message.version() && node.build == message.build() &&
                        node.host_memory == host_memory && node.device_memory == device_memory;
  node.version = message.version();
  node.build = message.build();
  node.host_memory = host_memory;
  node.device_memory = device_memory;
  if (same && as_built) return;
  if (node.resource_version != 0) state_.cluster_changed = true;
  node.kind = message.device();
  node.devices = message.devices();
  node.locality = locality;
  state_.nodes.Reorder();
  SaveNode(state_, node, effects_);
}

void SessionHandler::TakeHeld(NodeEntry& node, const v1::Register& message, bool first,
                              v1::Welcome& welcome) {
  for (const v1::HeldEpoch& held : message.held()) {
    const EpochKey key = KeyOf(held.epoch());
    const auto [hold, unknown] = node.holds.try_emplace(key);
    if (unknown) hold->second.all_devices = true;
    JobEntry* job = Current(node, held.epoch());
    if (job == nullptr && Claim(node, held)) {
      *welcome.add_keep() = held.epoch();
      continue;
    }
    if (job == nullptr) {
      if (hold->second.stop.has_value()) continue;  // Repeat says it
      hold->second.stop.emplace();
      *hold->second.stop->mutable_epoch() = held.epoch();
      hold->second.stop->set_reason(absl::StrCat("epoch ", key.epoch, " of ", key.job, " is over"));
      continue;
    }
    Member& member = job->run.members.at(node.name);
    hold->second.devices = member.devices;
    hold->second.all_devices = false;
    *welcome.add_keep() = held.epoch();
    member.first_heard = first;
    TakeOver(*job, member, node, held);
  }
}

void SessionHandler::TakeOver(JobEntry& job, Member& member, const NodeEntry& node,
                              const v1::HeldEpoch& held) {
  const std::set<int> here(held.ranks().begin(), held.ranks().end());
  for (const int rank : member.ranks) {
    if (here.contains(rank)) continue;
    JobMachine::Report(job,
                       {.reason = absl::StrCat("rank ", rank, " on ", ShortName(node.name),
                                               " is gone, as its agent found when it came back"),
                        .cause = "trainer_died",
                        .node = node.name});
  }
  member.missed_at.reset();
  if (held.running()) member.state = MemberState::kRunning;
  ReachedStep(job, held.step());
}

// Epochs of which the node had a part when it was last heard of, and has none now. The agent may
// be about to say how they ended: that is worth a moment.
void SessionHandler::MissEpochs(NodeEntry& node, const std::map<EpochKey, Hold>& before,
                                bool first) {
  std::map<EpochKey, Hold> expected = before;
  for (const std::string& name : state_.recovering) {  // its hold went with its lease
    const JobEntry& job = state_.jobs.at(name);
    const auto& given_up = job.given_up;
    if (given_up.has_value() && given_up->run.members.contains(node.name)) expected[job.key()];
  }
  for (const auto& [key, hold] : expected) {
    if (node.holds.contains(key)) continue;
    JobEntry* job = Current(node, ToProto(key));
    if (job == nullptr) continue;  // over anyway, and now confirmed
    Member& member = job->run.members.at(node.name);
    // Of the backup's own epoch nobody knows how far it came: it is not begun a second time.
    const bool may_have_begun = job->record.epoch() < job->record.least_epoch();
    if (member.state == MemberState::kAsked && !may_have_begun) {
      node.holds.insert({key, hold});  // it has not heard of it yet
      continue;
    }
    member.missed_at = state_.now;
    member.first_heard = first;
  }
}

// Says again what the node has not answered, as far as it is still to be said.
void SessionHandler::Repeat(NodeEntry& node) {
  std::vector<EpochKey> keys;
  for (auto& [key, hold] : node.holds) keys.push_back(key);
  for (const EpochKey& key : keys) {
    Hold& hold = node.holds.at(key);
    if (hold.stop.has_value()) {
      machine_.SendStop(node, hold);
      const JobEntry* job = Current(node, ToProto(key));
      if (job != nullptr && job->run.last_step.has_value()) machine_.SendStopAfter(*job, node);
      continue;
    }
    if (Current(node, ToProto(key)) == nullptr) continue;
    JobEntry& job = *state_.Find(key.job);
    const Member& member = job.run.members.at(node.name);
    if (job.record.state() == v1::Job::STARTING && !job.run.failure.has_value()) {
      if (job.run.start_sent) {
        JobMachine::StartParts parts;
        machine_.SendStart(job, node, member, parts);
      } else if (!std::all_of(member.ranks.begin(), member.ranks.end(),
                              [&](int rank) { return job.run.prepared.contains(rank); })) {
        machine_.SendPrepare(job, node, member);
      }
    }
    if (job.record.placement(0).node() == node.name) {
      auto whole = job.run.fragments.Newest(job.record.placement_size());
      if (whole.has_value()) {
        machine_.SendManifest(job, ManifestOf(ToProto(key), *std::move(whole)));
      }
    }
  }
  const std::vector<std::string> live(state_.live.begin(), state_.live.end());
  for (const std::string& name : live) {
    JobEntry& job = state_.jobs.at(name);
    if (job.run.members.contains(node.name)) machine_.Reconcile(job);
  }
}

}  // namespace strata::controller
