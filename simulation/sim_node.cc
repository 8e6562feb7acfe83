// The machine: the agent's process and its session, and what breaks.
#include "simulation/sim_node.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "protocol/versions.h"
#include "simulation/cluster.h"
#include "simulation/sim_epoch.h"

namespace strata::simulation {
namespace {

constexpr double kTickSeconds = 0.45;  // of the agent's loop, when nothing else wakes it
constexpr double kKeepaliveSeconds = 15;

}  // namespace

SimNode::SimNode(Cluster& cluster, int number, int devices, const std::string& domain)
    : cluster_(cluster),
      number_(number),
      devices_(devices),
      domain_(domain),
      protocol_(protocol::OwnRange()) {}

std::string SimNode::name() const { return absl::StrCat("n", number_); }

bool SimNode::DiskFull() const { return cluster_.events.Now() < disk_.full_until; }

// ---- the agent's process

void SimNode::Agent(const std::function<void()>& what) {
  if (core_ == nullptr) return;
  if (frozen_) {
    put_off_.push_back(what);
    return;
  }
  what();
  if (core_ == nullptr) return;
  core_->Advance();
  if (core_->dismissed()) KillAgent(0.5);  // its supervisor starts another one
}

void SimNode::AgentAfter(double delay, std::function<void()> what) {
  cluster_.events.After(delay, [this, life = life_, what = std::move(what)] {
    if (life == life_) Agent(what);
  });
}

void SimNode::Boot() {
  if (core_ != nullptr) return;
  frozen_ = false;
  ++life_;
  worker::AgentCore::Options options;
  options.node = name();
  options.devices = devices_;
  if (!domain_.empty()) options.locality["domain"] = domain_;
  options.build = build_;
  options.protocol = speaks_ = protocol_;
  options.incarnation = cluster_.random.Next() | 1;
  options.boot_id = absl::StrCat("boot-", boot_);
  core_ = std::make_unique<worker::AgentCore>(options, disk_.membership, this, &cluster_.events);
  if (cluster_.options.bug == PlantedBug::kForgetsTrainers) disk_.records.clear();
  std::vector<v1::HeldEpochRecord> records;
  for (const auto& [key, record] : disk_.records) records.push_back(record);
  for (const v1::HeldEpochRecord& record : records) core_->Adopt(record);
  Tick();
  Connect();
}

void SimNode::Tick() {
  if (AgentAwake()) Agent([] {});
  cluster_.events.After(kTickSeconds, [this, life = life_] {
    if (life == life_ && core_ != nullptr) Tick();
  });
}

void SimNode::EndAgent(double back_after, bool flushed) {
  if (core_ == nullptr) return;
  core_->LetGo();
  core_.reset();
  frozen_ = false;
  ++life_;
  put_off_.clear();
  if (link_ != nullptr) {
    link_->down.Close();
    if (flushed) {
      link_->End();
    } else {
      link_->Break();
    }
  }
  link_ = nullptr;
  cluster_.events.After(back_after, [this] { Boot(); });
}

void SimNode::KillAgent(double back_after) { EndAgent(back_after, /*flushed=*/false); }

void SimNode::HandOver(double back_after) {
  if (!AgentAwake()) return;
  if (cluster_.options.bug == PlantedBug::kEndsRanksAtHandOver) core_->EndAll();
  core_->SayHandingOver();
  EndAgent(back_after, /*flushed=*/true);
}

void SimNode::Upgrade(const std::string& build, const v1::ProtocolRange& range) {
  build_ = build;
  protocol_ = range;
  RestartAgent();
}

void SimNode::RestartAgent() {
  if (frozen_) return cluster_.events.After(1, [this] { RestartAgent(); });
  HandOver(cluster_.random.Between(0.1, 2));
}

// ---- its session

void SimNode::Connect() {
  if (link_ != nullptr) return;
  const bool reachable =
      cluster_.controller.Reachable() && cluster_.events.Now() >= partitioned_until_;
  if (!reachable) return AgentAfter(cluster_.random.Between(0.1, 0.8), [this] { Connect(); });
  link_ = std::make_shared<Link>(cluster_.events, cluster_.random);
  ++session_;
  const Link* link = link_.get();
  link_->down.on_message = [this, link, life = life_](const v1::ControllerMessage& message) {
    if (life != life_) return;
    Agent([this, link, message] {
      if (link == link_.get()) Hear(message);
    });
  };
  link_->down.on_end = [this, link, life = life_] {
    if (life != life_) return;
    Agent([this, link] {
      if (link != link_.get()) return;
      link_ = nullptr;
      core_->OnLinkDown(session_, "the session broke");
      const auto common = protocol::CommonVersion(speaks_, name(), cluster_.controller.protocol());
      if (!common.ok() && cluster_.options.bug == PlantedBug::kEndsRanksWhenRefused)
        core_->EndAll();
      AgentAfter(cluster_.random.Between(0.05, 0.5), [this] { Connect(); });
    });
  };
  cluster_.controller.Accept(link_);
  core_->OnLinkUp(session_);
}

void SimNode::Hear(const v1::ControllerMessage& message) {
  if (cluster_.options.on_heard) cluster_.options.on_heard(name(), message);
  if (message.start().ranks_size() > 0 && speaks_.greatest() < protocol::kFirstWithSomeAddresses) {
    cluster_.oracle.Violate(absl::StrCat("a start with the addresses of some ranks is said to ",
                                         name(), ", whose release does not know such"));
  }
  if (message.has_write_manifest() && cluster_.options.bug == PlantedBug::kDropsOlderManifests) {
    const v1::WriteManifest& manifest = message.write_manifest();
    int64_t& newest = manifests_[controller::ToKey(manifest.epoch())];
    if (manifest.step() < newest) return;
    newest = manifest.step();
  }
  if (message.has_commit() && cluster_.options.bug == PlantedBug::kSwallowsAnswers &&
      cluster_.random.Chance(0.1)) {
    return;
  }
  if (message.has_prepare() && cluster_.options.bug == PlantedBug::kForgetsUpdates) {
    v1::ControllerMessage first = message;
    v1::TrainSpec& train = *first.mutable_prepare()->mutable_spec()->mutable_train();
    train.set_steps(cluster_.first_steps.try_emplace(message.prepare().epoch().uid(), train.steps())
                        .first->second);
    return core_->OnMessage(session_, first);
  }
  const bool forgets = cluster_.options.bug == PlantedBug::kForgetsToKeep &&
                       message.has_welcome() && message.welcome().keep_size() > 0 &&
                       cluster_.random.Chance(0.3);
  if (!forgets) return core_->OnMessage(session_, message);
  v1::ControllerMessage changed = message;
  changed.mutable_welcome()->mutable_keep()->RemoveLast();
  core_->OnMessage(session_, changed);
}

void SimNode::Send(uint64_t session, const v1::AgentMessage& message) {
  if (link_ == nullptr || session != session_) return;
  if (cluster_.options.on_said) cluster_.options.on_said(name(), message);
  if (message.has_written() && cluster_.options.bug == PlantedBug::kDropsFragments &&
      cluster_.random.Chance(0.2)) {
    return;
  }
  if (message.has_stopping() && cluster_.options.bug == PlantedBug::kDropsStoppingSteps &&
      cluster_.random.Chance(0.3)) {
    return;
  }
  const bool twice = !message.has_register_() && cluster_.random.Chance(0.01);
  if (twice) link_->SendUp(message);
  v1::AgentMessage said = message;
  Spoil(said);
  link_->SendUp(std::move(said));
}

void SimNode::Spoil(v1::AgentMessage& message) const {
  if (!message.has_register_() || cluster_.options.bug != PlantedBug::kTellsNoRanks) return;
  for (v1::HeldEpoch& held : *message.mutable_register_()->mutable_held()) held.clear_job_ranks();
}

void SimNode::EndSession(uint64_t session) {
  if (session == session_) BreakSession();
}

void SimNode::Log(const std::string& text) {
  if (cluster_.options.trace || cluster_.options.story != nullptr)
    cluster_.Tell(absl::StrCat(name(), ": ", text));
}

absl::Status SimNode::SetMembership(const v1::AgentMembership& membership) {
  if (DiskFull()) return absl::UnavailableError("membership: No space left on device");
  disk_.membership = membership;
  return absl::OkStatus();
}

std::unique_ptr<worker::EpochHost> SimNode::OpenEpoch(const v1::PrepareEpoch& prepare) {
  return std::make_unique<SimEpoch>(cluster_, *this, prepare);
}

// ---- its processes

std::shared_ptr<SimProcess> SimNode::Spawn(const EpochKey& key, int rank, int device) {
  const int64_t pid = cluster_.NextPid();
  auto process = std::make_shared<SimProcess>(
      cluster_, *this,
      SimProcess::Identity{.pid = pid, .key = key, .rank = rank, .device = device});
  disk_.processes[pid] = process;
  if (device >= 0) cluster_.oracle.OnTrainer(number_, device, key.job, key.epoch);
  return process;
}

void SimNode::OnExit(const SimProcess& process) {
  const SimProcess::Identity& it = process.identity();
  if (process.plans()) {
    disk_.processes.erase(it.pid);  // it has left nothing behind
  } else {
    cluster_.oracle.OnTrainerGone(number_, it.device, it.key.job, it.key.epoch);
  }
}

void SimNode::OnHello(const std::shared_ptr<SimProcess>& process) {
  if (core_ == nullptr) return;
  Agent([this, process] {
    if (!process->alive() || process->connected()) return;
    const SimProcess::Identity& identity = process->identity();
    v1::TrainerHello hello;
    hello.set_job(identity.key.job);
    hello.set_epoch(identity.key.epoch);
    hello.set_rank(identity.rank);
    const auto conversation = std::make_shared<Conversation>();
    SimTrainer* const trainer = process->handle();
    if (trainer == nullptr || !core_->Expects(hello, identity.pid)) {
      if (cluster_.options.bug == PlantedBug::kForgetsTrainers) return;
      v1::TrainerCommand end;
      end.mutable_end()->set_reason("this node's agent does not know it");
      process->Connect(conversation, /*again=*/false);
      return process->Receive(conversation, end);
    }
    trainer->Attach(conversation);
    core_->OnAttached(hello, identity.pid);
    process->Connect(conversation, /*again=*/true);
  });
}

// ---- faults

void SimNode::Reboot(double back_after) {
  KillAgent(back_after);
  ++boot_;
  disk_.records.clear();  // they are of processes of the boot before
  std::vector<std::shared_ptr<SimProcess>> gone;
  for (const auto& [pid, process] : disk_.processes) gone.push_back(process);
  for (const auto& process : gone) process->Exit(/*by_signal=*/true);
  disk_.processes.clear();
}

void SimNode::Replace(double back_after) {
  Reboot(back_after);
  disk_.membership.Clear();
}

void SimNode::Freeze(double seconds, bool trainers) {
  if (!AgentAwake()) return;
  frozen_ = true;
  for (const auto& [pid, process] : disk_.processes) {
    if (trainers) process->Freeze(true);
  }
  if (seconds > kKeepaliveSeconds && cluster_.random.Chance(0.7)) {
    cluster_.events.After(kKeepaliveSeconds, [this, link = link_] {
      if (link != nullptr && link == link_) link->Break();
    });
  }
  cluster_.events.After(seconds, [this, life = life_] { Wake(life); });
}

void SimNode::Wake(uint64_t life) {
  std::vector<std::shared_ptr<SimProcess>> all;
  for (const auto& [pid, process] : disk_.processes) all.push_back(process);
  for (const auto& process : all) process->Freeze(false);
  if (life != life_ || core_ == nullptr) return;
  frozen_ = false;
  while (!put_off_.empty() && AgentAwake()) {
    const std::function<void()> what = std::move(put_off_.front());
    put_off_.pop_front();
    Agent(what);
  }
}

void SimNode::BreakSession() {
  if (link_ != nullptr) link_->Break();
}

void SimNode::Partition(double seconds, bool up, bool down) {
  const double until = cluster_.events.Now() + seconds;
  partitioned_until_ = std::max(partitioned_until_, until);
  if (link_ == nullptr) return;
  if (up) link_->up.blocked_until = std::max(link_->up.blocked_until, until);
  if (down) link_->down.blocked_until = std::max(link_->down.blocked_until, until);
  if (seconds > kKeepaliveSeconds) {
    cluster_.events.After(kKeepaliveSeconds, [link = link_] { link->Break(); });
  }
}

void SimNode::FillDisk(double seconds) { disk_.full_until = cluster_.events.Now() + seconds; }

std::shared_ptr<SimProcess> SimNode::RandomRank() {
  std::vector<std::shared_ptr<SimProcess>> ranks;
  for (const auto& [pid, process] : disk_.processes) {
    if (process->alive() && !process->plans()) ranks.push_back(process);
  }
  if (ranks.empty()) return nullptr;
  return ranks[cluster_.random.Below(static_cast<int>(ranks.size()))];
}

void SimNode::KillTrainer() {
  if (const auto rank = RandomRank()) rank->Exit(/*by_signal=*/true);
}

void SimNode::HangTrainer() {
  if (const auto rank = RandomRank()) rank->Hang();
}

void SimNode::StopTrainer() {
  if (const auto rank = RandomRank()) rank->Stop();
}

}  // namespace strata::simulation
