#include "tests/bench/simulated_agents.h"

#include <chrono>
#include <deque>
#include <utility>

#include "common/check.h"
#include "grpcpp/grpcpp.h"
#include "proto/strata/v1/agent.grpc.pb.h"
#include "protocol/versions.h"

namespace strata::bench {

// One session on a connection of its own.
class SimulatedAgents::Agent final
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::ControllerMessage> {
 public:
  Agent(SimulatedAgents* all, const ControllerProcess& controller, int number, int devices)
      : all_(all), incarnation_(1000 + static_cast<uint64_t>(number)) {
    channel_ = controller.Connect("node/n" + std::to_string(number));
    stub_ = v1::AgentService::NewStub(channel_);
    v1::AgentMessage hello;
    v1::Register& node = *hello.mutable_register_();
    node.set_node("n" + std::to_string(number));
    node.set_device("cpu");
    node.set_devices(devices);
    *node.mutable_protocol() = protocol::OwnRange();
    (*node.mutable_locality())["zone"] = "z" + std::to_string(number / 128);
    (*node.mutable_locality())["rack"] = "r" + std::to_string(number / 8);
    stub_->async()->Session(&context_, this);
    Say(std::move(hello));
    StartRead(&incoming_);
    AddHold();  // heartbeats are written from outside gRPC's calls, until EndAndWait
    StartCall();
  }

  void Say(v1::AgentMessage message) {
    message.set_incarnation(incarnation_);
    const std::lock_guard lock(mutex_);
    unsent_.push_back(std::move(message));
    Write();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return all_->Count(0, 1);  // the session has ended
    if (incoming_.has_welcome()) all_->Count(1, 0);
    if (incoming_.has_prepare()) Prepare(incoming_.prepare());
    if (incoming_.has_start()) Start(incoming_.start());
    if (incoming_.has_stop()) {
      {
        const std::lock_guard lock(mutex_);
        stopped_ = incoming_.stop().epoch().job();
        changed_.notify_all();
      }
      v1::AgentMessage ended;
      *ended.mutable_ended()->mutable_epoch() = incoming_.stop().epoch();
      ended.mutable_ended()->mutable_finished()->set_outcome(v1::Finished::INTERRUPTED);
      ended.mutable_ended()->set_rank(-1);
      Say(std::move(ended));
    }
    StartRead(&incoming_);
  }
  void FailRank() {
    v1::AgentMessage ended;
    {
      const std::lock_guard lock(mutex_);
      *ended.mutable_ended()->mutable_epoch() = epoch_;
    }
    ended.mutable_ended()->mutable_finished()->set_outcome(v1::Finished::FAILED);
    ended.mutable_ended()->mutable_finished()->set_message("was killed by signal 9");
    ended.mutable_ended()->set_cause("trainer_died");
    Say(std::move(ended));
  }
  // Whether this session was told to stop what a heartbeat told of.
  bool AskByHeartbeat(const std::string& job) {
    constexpr auto kPatience = std::chrono::seconds(60);
    v1::AgentMessage beat;
    v1::Heartbeat::Rank& rank = *beat.mutable_heartbeat()->add_ranks();
    rank.mutable_epoch()->set_job(job);
    rank.mutable_epoch()->set_epoch(1);
    Say(std::move(beat));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return stopped_ == job || done_; });
    return stopped_ == job;
  }
  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    Write();
  }
  void OnDone(const grpc::Status& /*status*/) override {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  void EndAndWait() {
    context_.TryCancel();
    RemoveHold();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }

 private:
  void Prepare(const v1::PrepareEpoch& asked) {
    ++all_->prepared_;
    if (all_->layout_ == nullptr) return;
    const program::Mesh mesh = all_->MeshOf(asked);
    {
      const std::lock_guard lock(mutex_);
      epoch_ = asked.epoch();
    }
    v1::AgentMessage message;
    *message.mutable_prepared()->mutable_epoch() = asked.epoch();
    for (const int rank : asked.own()) {
      v1::EpochPrepared::Rank& prepared = *message.mutable_prepared()->add_ranks();
      prepared.set_rank(rank);
      *prepared.mutable_prepared() = all_->layout_->Describe(mesh, rank);
    }
    message.mutable_prepared()->mutable_plan()->set_parameters(1);
    Say(std::move(message));
  }

  void Start(const v1::StartEpoch& asked) {
    const auto bytes = static_cast<int64_t>(asked.ByteSizeLong());
    int64_t longest = all_->longest_start_bytes_;
    while (bytes > longest && !all_->longest_start_bytes_.compare_exchange_weak(longest, bytes)) {
    }
    v1::AgentMessage message;
    *message.mutable_running()->mutable_epoch() = asked.epoch();
    Say(std::move(message));
    ++all_->started_;
  }

  void Write() {
    if (writing_ || unsent_.empty() || done_) return;
    writing_ = true;
    outgoing_ = std::move(unsent_.front());
    unsent_.pop_front();
    StartWrite(&outgoing_);
  }

  SimulatedAgents* const all_;
  const uint64_t incarnation_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
  v1::ControllerMessage incoming_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<v1::AgentMessage> unsent_;
  v1::JobEpoch epoch_;   // that it was asked to prepare last
  std::string stopped_;  // job whose epoch it was told to stop last
  v1::AgentMessage outgoing_;
  bool writing_ = false;
  bool done_ = false;
};

SimulatedAgents::SimulatedAgents(const ControllerProcess& controller, int count, int devices,
                                 const RankLayout* layout)
    : layout_(layout) {
  for (int i = 0; i < count; ++i) {
    agents_.push_back(std::make_unique<Agent>(this, controller, i, devices));
  }
  beats_ = std::thread([this] { BeatUntilStopped(); });
}

SimulatedAgents::~SimulatedAgents() {
  stop_ = true;
  beats_.join();
  for (const auto& agent : agents_) agent->EndAndWait();
}

void SimulatedAgents::FailRank(int agent) { agents_[agent]->FailRank(); }

std::optional<double> SimulatedAgents::TimeHeartbeat() {
  const auto begin = std::chrono::steady_clock::now();
  const std::string job = "jobs/nobody-knows-" + std::to_string(++asked_);
  if (!agents_.front()->AskByHeartbeat(job)) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

program::Mesh SimulatedAgents::MeshOf(const v1::PrepareEpoch& asked) {
  std::string order;
  for (const std::string& dimension : asked.rank_order()) order += dimension + " ";
  const std::lock_guard lock(mutex_);
  const auto known = meshes_.find(order);
  if (known != meshes_.end()) return known->second;
  const auto mesh = layout_->MeshOf(asked.rank_order());
  STRATA_CHECK(mesh.ok());
  return meshes_[order] = *mesh;
}

void SimulatedAgents::Count(int welcomed, int ended) {
  const std::lock_guard lock(mutex_);
  welcomed_ += welcomed;
  ended_ += ended;
  changed_.notify_all();
}

bool SimulatedAgents::AwaitWelcome() {
  std::unique_lock lock(mutex_);
  const int all = static_cast<int>(agents_.size());
  changed_.wait(lock, [&] { return welcomed_ == all || ended_ > 0; });
  return ended_ == 0;
}

// Spreads a second's heartbeats over the second, as real nodes do.
void SimulatedAgents::BeatUntilStopped() {
  const auto second = std::chrono::nanoseconds(std::chrono::seconds(1));
  auto next = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable never;
  for (size_t i = 0; !stop_; i = (i + 1) % agents_.size()) {
    std::unique_lock lock(mutex);
    next += second / static_cast<int64_t>(agents_.size());
    never.wait_until(lock, next, [this] { return stop_.load(); });
    v1::AgentMessage beat;
    beat.mutable_heartbeat();
    agents_[i]->Say(std::move(beat));
    ++heartbeats_;
  }
}

}  // namespace strata::bench
