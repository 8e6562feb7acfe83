#include "controller/logic/testing.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::controller::testing {
namespace {

constexpr double kTick = 0.25;
constexpr double kWall = 1.7e9;

v1::JobEpoch Epoch(const std::string& job, int64_t epoch) {
  v1::JobEpoch made;
  made.set_job("jobs/" + job);
  made.set_epoch(epoch);
  return made;
}

}  // namespace

v1::HeldEpoch Held(const std::string& job, int64_t epoch, const std::vector<int>& ranks,
                   bool running) {
  v1::HeldEpoch held;
  *held.mutable_epoch() = Epoch(job, epoch);
  held.mutable_ranks()->Add(ranks.begin(), ranks.end());
  held.set_started(running);
  held.set_running(running);
  return held;
}

Harness::Harness() { RestartController(); }

v1::CreateJobRequest Harness::Request(const std::string& name, int ranks) {
  v1::CreateJobRequest request;
  v1::Job& job = *request.mutable_job();
  job.set_name("jobs/" + name);
  job.set_directory("/jobs/" + name);
  job.mutable_spec()->mutable_model()->set_layers(1);
  job.mutable_spec()->mutable_train()->set_steps(100);
  job.mutable_spec()->mutable_parallel()->set_virtual_shards(ranks);
  job.mutable_spec()->mutable_resources()->set_device("cpu");
  job.mutable_spec()->mutable_resources()->set_ranks(ranks);
  request.set_request_id("request-" + name);
  return request;
}

void Harness::RestartController() {
  core = std::make_unique<Core>(&clock_, topology::Description(), entropy_);
  std::vector<Write> all;
  for (const auto& [key, write] : records) all.push_back(write);
  for (auto& [name, agent] : agents_) agent.session = 0;
  const absl::StatusOr<Effects> loaded = core->Load(all, kWall + clock_.Now());
  STRATA_CHECK(loaded.ok());
  Apply(*loaded);
}

void Harness::Pass(double seconds, const std::vector<std::string>& beating) {
  for (double passed = 0; passed < seconds; passed += kTick) {
    clock_.Advance(kTick);
    Effects effects;
    core->OnTick(kWall + clock_.Now(), effects, std::exchange(standstill_, 0));
    Apply(effects);
    for (const std::string& node : beating) {
      v1::AgentMessage beat;
      beat.mutable_heartbeat();
      Say(node, std::move(beat));
    }
  }
}

void Harness::PassHeard(double seconds, const std::vector<std::string>& silent) {
  clock_.Advance(seconds);
  std::vector<uint64_t> sessions;
  for (const std::string& node : silent) sessions.push_back(SessionOf(node));
  core->OnHeard(sessions);
  Effects effects;
  core->OnTick(kWall + clock_.Now(), effects);
  Apply(effects);
}

absl::StatusOr<v1::JobRecord> Harness::Create(const v1::CreateJobRequest& request) {
  Effects effects;
  absl::StatusOr<v1::JobRecord> job = core->CreateJob(request, effects);
  Apply(effects);
  return job;
}

absl::StatusOr<v1::JobRecord> Harness::Cancel(const std::string& name,
                                              v1::CancelJobRequest request) {
  request.set_name("jobs/" + name);
  return With([&](Effects& effects) { return core->CancelJob(request, effects, "users/ann"); });
}

absl::StatusOr<v1::JobRecord> Harness::Update(const std::string& name, const v1::Job& changes,
                                              const std::vector<std::string>& mask) {
  v1::UpdateJobRequest request;
  *request.mutable_job() = changes;
  request.mutable_job()->set_name("jobs/" + name);
  for (const std::string& path : mask) request.mutable_update_mask()->add_paths(path);
  return With([&](Effects& effects) { return core->UpdateJob(request, effects, "users/ann"); });
}

absl::StatusOr<v1::JobRecord> Harness::Suspend(const std::string& name) {
  v1::SuspendJobRequest request;
  request.set_name("jobs/" + name);
  return With([&](Effects& effects) { return core->SuspendJob(request, effects, "users/ann"); });
}

absl::StatusOr<v1::JobRecord> Harness::Resume(const std::string& name) {
  v1::ResumeJobRequest request;
  request.set_name("jobs/" + name);
  return With([&](Effects& effects) { return core->ResumeJob(request, effects, "users/ann"); });
}

absl::Status Harness::Delete(const std::string& name, bool force) {
  v1::DeleteJobRequest request;
  request.set_name("jobs/" + name);
  request.set_force(force);
  return With([&](Effects& effects) { return core->DeleteJob(request, effects, "users/ann"); });
}

absl::StatusOr<v1::ApplyPolicyResponse> Harness::ApplyPolicy(const v1::Policy& policy,
                                                             bool validate_only) {
  v1::ApplyPolicyRequest request;
  *request.mutable_policy() = policy;
  request.set_validate_only(validate_only);
  Effects effects;
  auto response = core->ApplyPolicy(request, effects);
  Apply(effects);
  return response;
}

absl::StatusOr<v1::Node> Harness::Drain(const std::string& node, bool drain,
                                        const std::string& reason) {
  v1::DrainNodeRequest drained;
  v1::ResumeNodeRequest resumed;
  drained.set_name(node);
  drained.set_reason(reason);
  resumed.set_name(node);
  return With([&](Effects& effects) {
    return drain ? core->DrainNode(drained, effects) : core->ResumeNode(resumed, effects);
  });
}

absl::StatusOr<v1::DrainNodesResponse> Harness::DrainTogether(
    const std::vector<std::string>& nodes) {
  v1::DrainNodesRequest request;
  for (const std::string& node : nodes) request.add_names(node);
  return With([&](Effects& effects) { return core->DrainNodes(request, effects); });
}

absl::Status Harness::DeleteNode(const std::string& node) {
  v1::DeleteNodeRequest request;
  request.set_name(node);
  return With([&](Effects& effects) { return core->DeleteNode(request, effects); });
}

void Harness::Join(const std::string& node, const std::vector<v1::HeldEpoch>& held, int devices,
                   const std::map<std::string, std::string>& locality) {
  agents_[node].incarnation = ++last_number_;
  agents_[node].devices = devices;
  agents_[node].locality = locality;
  Register(node, held);
}

void Harness::Reconnect(const std::string& node, const std::vector<v1::HeldEpoch>& held) {
  Register(node, held);
}

void Harness::Register(const std::string& node, const std::vector<v1::HeldEpoch>& held) {
  Agent& agent = agents_.at(node);
  agent.session = ++last_number_;
  v1::AgentMessage message;
  v1::Register& hello = *message.mutable_register_();
  hello.set_node(node);
  hello.set_device(agent.kind);
  hello.set_devices(agent.devices);
  hello.mutable_locality()->insert(agent.locality.begin(), agent.locality.end());
  hello.set_build(agent.build);
  hello.set_host_memory_bytes(agent.host_memory);
  hello.set_device_memory_bytes(agent.device_memory);
  hello.mutable_protocol()->set_least(1);
  hello.mutable_protocol()->set_greatest(agent.protocol);
  for (const v1::HeldEpoch& epoch : held) *hello.add_held() = epoch;
  Say(node, std::move(message));
}

void Harness::EndSession(const std::string& node) {
  Effects effects;
  core->OnSessionEnd(agents_.at(node).session, effects);
  Apply(effects);
}

void Harness::Say(const std::string& node, v1::AgentMessage message) {
  message.set_incarnation(agents_.at(node).incarnation);
  Effects effects;
  core->OnAgent(agents_.at(node).session, message, effects);
  Apply(effects);
}

void Harness::Apply(const Effects& effects) {
  for (const Write& write : effects.writes) {
    if (write.erase) {
      records.erase({write.table, write.key});
    } else {
      records[{write.table, write.key}] = write;
    }
  }
  for (const v1::JobRecord& job : effects.changed) changed.push_back(job);
  for (const v1::JobRecord& job : effects.deleted) deleted.push_back(job);
  for (const v1::Node& node : effects.nodes) told_nodes.push_back(node);
  for (const v1::Node& node : effects.deleted_nodes) deleted_nodes.push_back(node);
  for (const Effects::Refused& each : effects.refused) refused.push_back(each.status);
  for (const Effects::Progress& step : effects.progress) progress.push_back(step);
  decisions.insert(decisions.end(), effects.decisions.begin(), effects.decisions.end());
  for (const Outgoing& out : effects.messages) {
    const std::string node = out.node.substr(out.node.find('/') + 1);
    if (out.message->has_dismiss()) dismissed.push_back(out);
    if (out.message->has_welcome()) {
      welcomes_[node] = out.message->welcome();
    } else if (!out.message->has_dismiss()) {
      inbox_[node].push_back(*out.message);
    }
  }
}

void Harness::SayPrepared(const std::string& node, const std::string& job, int64_t epoch,
                          const std::vector<int>& ranks, const std::string& digest,
                          const std::map<int, std::vector<int>>& peers) {
  v1::AgentMessage message;
  *message.mutable_prepared()->mutable_epoch() = Epoch(job, epoch);
  for (const int rank : ranks) {
    v1::EpochPrepared::Rank& prepared = *message.mutable_prepared()->add_ranks();
    prepared.set_rank(rank);
    prepared.mutable_prepared()->set_address(absl::StrCat("address-", rank));
    prepared.mutable_prepared()->set_plan_digest(digest);
    if (const auto found = peers.find(rank); found != peers.end()) {
      prepared.mutable_prepared()->mutable_peers()->mutable_ranks()->Add(found->second.begin(),
                                                                         found->second.end());
    }
  }
  message.mutable_prepared()->mutable_plan()->set_parameters(7);
  Say(node, std::move(message));
}

void Harness::SayProblem(const std::string& node, const std::string& job, int64_t epoch,
                         bool permanent) {
  v1::AgentMessage message;
  v1::EpochPrepared& prepared = *message.mutable_prepared();
  *prepared.mutable_epoch() = Epoch(job, epoch);
  prepared.set_problem("no such file");
  prepared.set_problem_field("data.train[0].path");
  prepared.set_permanent(permanent);
  Say(node, std::move(message));
}

void Harness::SayRunning(const std::string& node, const std::string& job, int64_t epoch) {
  v1::AgentMessage message;
  *message.mutable_running()->mutable_epoch() = Epoch(job, epoch);
  Say(node, std::move(message));
}

void Harness::SayStep(const std::string& node, const std::string& job, int64_t epoch,
                      int64_t step) {
  v1::AgentMessage message;
  *message.mutable_progress()->mutable_epoch() = Epoch(job, epoch);
  message.mutable_progress()->mutable_progress()->mutable_step()->set_step(step);
  Say(node, std::move(message));
}

void Harness::SayEnded(const std::string& node, const std::string& job, int64_t epoch,
                       v1::Finished::Outcome outcome, const std::string& reason, int rank) {
  v1::AgentMessage message;
  v1::EpochEnded& ended = *message.mutable_ended();
  *ended.mutable_epoch() = Epoch(job, epoch);
  ended.mutable_finished()->set_outcome(outcome);
  ended.mutable_finished()->set_message(reason);
  ended.set_rank(rank);
  ended.set_echo(rank < 0);
  ended.set_cause(outcome == v1::Finished::FAILED ? "trainer_died" : "");
  Say(node, std::move(message));
}

void Harness::SayWritten(const std::string& node, const std::string& job, int64_t epoch,
                         int64_t step, const std::vector<int>& ranks) {
  v1::AgentMessage message;
  *message.mutable_written()->mutable_epoch() = Epoch(job, epoch);
  message.mutable_written()->set_step(step);
  for (const int rank : ranks) {
    (*message.mutable_written()->mutable_fragments())[rank] = absl::StrCat("fragment-", rank);
  }
  Say(node, std::move(message));
}

void Harness::SayCommit(const std::string& node, const std::string& job, int64_t epoch,
                        int64_t step, const std::string& digest) {
  v1::AgentMessage message;
  v1::CommitRequest& commit = *message.mutable_commit();
  *commit.mutable_epoch() = Epoch(job, epoch);
  commit.mutable_checkpoint()->set_epoch(epoch);
  commit.mutable_checkpoint()->set_step(step);
  commit.mutable_checkpoint()->set_manifest_digest(digest);
  commit.mutable_checkpoint()->set_path(absl::StrCat("/jobs/", job, "/step-", step));
  Say(node, std::move(message));
}

void Harness::SayStopping(const std::string& node, const std::string& job, int64_t epoch,
                          int64_t step) {
  v1::AgentMessage message;
  *message.mutable_stopping()->mutable_epoch() = Epoch(job, epoch);
  message.mutable_stopping()->set_step(step);
  Say(node, std::move(message));
}

void Harness::SayHang(const std::string& node, const std::string& job, int64_t epoch, int rank,
                      const std::vector<int>& missing) {
  v1::AgentMessage message;
  v1::HangReport& hang = *message.mutable_hang();
  *hang.mutable_epoch() = Epoch(job, epoch);
  hang.set_rank(rank);
  hang.set_group("data");
  hang.set_instruction("reduce block 1");
  hang.set_seconds(3.5);
  hang.set_local(missing.empty());
  hang.mutable_missing()->Add(missing.begin(), missing.end());
  Say(node, std::move(message));
}

void Harness::SayBeat(const std::string& node, const std::string& job, int64_t epoch, int rank,
                      const std::string& phase) {
  v1::AgentMessage message;
  v1::Heartbeat::Rank& beat = *message.mutable_heartbeat()->add_ranks();
  *beat.mutable_epoch() = Epoch(job, epoch);
  beat.set_rank(rank);
  beat.set_phase(phase);
  Say(node, std::move(message));
}

void Harness::Run(const std::string& name, const std::vector<std::string>& nodes) {
  (void)Create(Request(name, static_cast<int>(nodes.size())));
  const int64_t epoch = Job(name).epoch();
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    SayPrepared(nodes[rank], name, epoch, {static_cast<int>(rank)});
  }
  for (const std::string& node : nodes) SayRunning(node, name, epoch);
  for (const std::string& node : nodes) Take(node);
}

v1::Node Harness::Node(const std::string& name) const {
  for (const v1::Node& node : core->Nodes()) {
    if (node.name() == "nodes/" + name) return node;
  }
  return {};
}

std::vector<v1::ControllerMessage> Harness::Take(const std::string& node) {
  return std::exchange(inbox_[node], {});
}

}  // namespace strata::controller::testing
