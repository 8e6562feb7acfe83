// The half of the job machine that speaks to the nodes of an epoch.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/job_roots.h"
#include "controller/logic/job_shape.h"

namespace strata::controller {
namespace {

constexpr absl::string_view kUsers = "users/";

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
  *prepare.mutable_damaged() = job.record.damaged_checkpoints();
  // All of its nodes have the same: see builds.h.
  prepare.set_build(node.build);
  prepare.set_adopt_newer_checkpoint(job.record.restored());
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

SharedMessage JobMachine::StartMessage(const JobEntry& job) const {
  v1::ControllerMessage message;
  *message.mutable_start()->mutable_epoch() = ToProto(job.key());
  message.mutable_start()->set_nonce(job.record.epoch_nonce());
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

}  // namespace strata::controller
