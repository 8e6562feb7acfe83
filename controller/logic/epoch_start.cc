// The half of the job machine that speaks to the nodes of an epoch.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/job_roots.h"
#include "controller/logic/job_shape.h"
#include "protocol/versions.h"

namespace strata::controller {
namespace {

constexpr absl::string_view kUsers = "users/";

// Whether all ranks of the node have said whose addresses they need, and its agent understands a
// start without the others.
bool NamesPeers(const JobEntry& job, const NodeEntry& node, const Member& member) {
  return node.protocol >= protocol::kFirstWithSomeAddresses &&
         std::all_of(member.ranks.begin(), member.ranks.end(), [&](int rank) {
           const auto prepared = job.run.prepared.find(rank);
           return prepared != job.run.prepared.end() && prepared->second.has_peers();
         });
}

// `packed`: by rank, each as a serialised Addresses; empty: not made yet.
void AddAddresses(const std::map<int, v1::Prepared>& prepared, const std::vector<int>& ranks,
                  std::vector<std::string>& packed, v1::StartEpoch& start) {
  packed.resize(prepared.size());
  size_t bytes = 0;
  for (const int rank : ranks) {
    if (packed[rank].empty()) {
      v1::Addresses one;
      one.add_addresses(prepared.at(rank).address());
      packed[rank] = one.SerializeAsString();
    }
    bytes += packed[rank].size();
  }
  start.mutable_ranks()->Add(ranks.begin(), ranks.end());
  start.mutable_packed_addresses()->reserve(bytes);
  for (const int rank : ranks) start.mutable_packed_addresses()->append(packed[rank]);
}

// Its own and those that they named.
std::vector<int> RanksFor(const JobEntry& job, const Member& member) {
  std::vector<int> ranks = member.ranks;
  for (const int rank : member.ranks) {
    const auto& peers = job.run.prepared.at(rank).peers().ranks();
    ranks.insert(ranks.end(), peers.begin(), peers.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
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
  *prepare.mutable_spec() = SpecWithData(job.record.spec(), job.record.layout().data());
  prepare.set_directory(job.record.directory());
  prepare.set_ranks(job.record.placement_size());
  prepare.mutable_own()->Add(member.ranks.begin(), member.ranks.end());
  prepare.mutable_devices()->Add(member.devices.begin(), member.devices.end());
  if (job.record.has_checkpoint()) *prepare.mutable_checkpoint() = job.record.checkpoint();
  prepare.set_attempt(job.record.attempt());
  *prepare.mutable_rank_order() = job.record.layout().order();
  *prepare.mutable_damaged() = job.record.damaged_checkpoints();
  // All of its nodes have the same: see builds.h.
  prepare.set_build(node.build);
  prepare.set_adopt_newer_checkpoint(MayHaveUnknownCheckpoints(job.record));
  const google::protobuf::Timestamp& created = job.record.create_time();
  // A job of before there were uids keeps the owner that its folders are locked for.
  prepare.set_owner(absl::StrCat(job.record.name(), " of ",
                                 job.record.uid().empty()
                                     ? absl::StrCat(created.seconds(), ".", created.nanos())
                                     : job.record.uid()));
  const absl::string_view owner = job.record.owner();
  if (absl::StartsWith(owner, kUsers)) prepare.set_run_as(std::string(owner.substr(kUsers.size())));
  for (std::string& root : RootsOf(state_.policy, job.record.spec())) {
    prepare.add_roots(std::move(root));
  }
  Send(state_, node, std::move(message), effects_);
}

void JobMachine::SendStart(const JobEntry& job, const NodeEntry& node, const Member& member,
                           StartParts& parts) {
  v1::ControllerMessage message;
  v1::StartEpoch& start = *message.mutable_start();
  *start.mutable_epoch() = ToProto(job.key());
  start.set_nonce(job.record.epoch_nonce());
  if (NamesPeers(job, node, member)) {
    AddAddresses(job.run.prepared, RanksFor(job, member), parts.packed, start);
    return Send(state_, node, std::move(message), effects_);
  }
  if (parts.with_all == nullptr) {
    for (const auto& [rank, prepared] : job.run.prepared) start.add_addresses(prepared.address());
    parts.with_all = Share(state_, std::move(message));
  }
  Send(node, parts.with_all, effects_);
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

}  // namespace strata::controller
