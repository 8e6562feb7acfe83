#include "simulation/cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/logic/names.h"

namespace strata::simulation {
namespace {

// After the last fault, for all jobs one after the other, with leases and back-off.
constexpr double kPatienceSeconds = 1200;
constexpr double kTidySeconds = 15;  // after the last trainer, for the last words
constexpr double kCalmSeconds = 45;  // after the last job: longer than a lease
constexpr double kForEver = 1e9;
constexpr int kMostEvents = 1'000'000;

}  // namespace

Cluster::Cluster(const Options& options)
    : random(options.seed),
      options(options),
      controller(events, random, oracle, options.bug, options.trace, options.story) {
  step_seconds = random.Between(0.02, 0.25);
  controller.set_sync_seconds(random.Chance(0.2) ? random.Between(0.01, 0.3) : 0.004);
  for (int node = 0; node < options.nodes; ++node) AddNode(/*devices=*/1, /*domain=*/"");
  if (options.nodes > 0) {
    Begin();
    return;
  }
  const int count = random.Within(1, 4);
  if (random.Chance(0.4)) tensor_ = 2;  // then every node holds a tensor group
  const bool domains = random.Chance(0.4);
  for (int node = 0; node < count; ++node) {
    const int devices = tensor_ > 1 ? 2 : random.Within(1, 2);
    AddNode(devices, domains ? absl::StrCat("d", node / 2) : "");
  }
  Begin();
  const v1::Policy policy = PlanPolicy();
  PlanJobs();
  PlanDrains();
  PlanFaults();
  operations_.Plan(policy);
  events.After(random.Between(20, 40), [this] { Tend(); });
}

void Cluster::AddNode(int devices, const std::string& domain) {
  const auto number = static_cast<int>(nodes_.size());
  nodes_.push_back(std::make_unique<SimNode>(*this, number, devices, domain));
  oracle.OnNode(absl::StrCat("nodes/n", number), domain);
}

void Cluster::Begin() {
  controller.Start();
  for (auto& node : nodes_) {
    SimNode* born = node.get();
    events.After(random.Between(0, 0.5), [born] { born->Boot(); });
  }
}

// One project has a quota that every job alone is within.
v1::Policy Cluster::PlanPolicy() {
  v1::Policy policy;
  v1::ProjectPolicy& project = *policy.add_projects();
  project.set_name("limited");
  const int most = static_cast<int>(nodes_.size()) * tensor_;
  (*project.mutable_quota())["cpu"] = random.Within(most, most + 2);
  oracle.OnQuota("limited", project.quota().at("cpu"));
  v1::QueuePolicy& queue = *policy.add_queues();
  queue.set_name("urgent");
  queue.set_priority(random.Within(0, 2));
  v1::SchedulingPolicy& scheduling = *policy.mutable_scheduling();
  scheduling.set_min_run_seconds(random.Chance(0.5) ? 0 : random.Between(0, 10));
  scheduling.set_shrink_after_seconds(random.Between(1, 60));
  scheduling.set_unknown_run_seconds(random.Between(10, 100));
  scheduling.set_defragment(random.Chance(0.3));
  Apply(policy);
  return policy;
}

void Cluster::Apply(const v1::Policy& policy) {
  controller.Ask(
      [policy](controller::Core& core, controller::Effects& effects) {
        v1::ApplyPolicyRequest request;
        *request.mutable_policy() = policy;
        return core.ApplyPolicy(request, effects).ok();
      },
      [this](bool applied) { policy_applied_ |= applied; });
  events.After(0.5, [this, policy] {
    if (!policy_applied_) Apply(policy);
  });
}

void Cluster::PlanDrains() {
  const int drains = random.Chance(0.4) ? random.Within(1, 2) : 0;
  for (int i = 0; i < drains; ++i) {
    const std::string node = nodes_[random.Below(static_cast<int>(nodes_.size()))]->name();
    const double at = random.Between(3, 30), until = at + random.Between(1, 40);
    faults_over_at = std::max(faults_over_at, until);
    events.At(at, [this, node] { Drain(node, true); });
    events.At(until, [this, node] { Drain(node, false); });
  }
}

void Cluster::Drain(const std::string& node, bool drain) {
  const int wish = ++wish_;
  newest_wish_[node] = wish;
  AskToDrain(node, drain, wish);
}

void Cluster::AskToDrain(const std::string& node, bool drain, int wish) {
  const auto answered = std::make_shared<bool>(false);
  if (!drain) oracle.OnDrained("nodes/" + node, false);
  controller.Ask(
      [node, drain](controller::Core& core, controller::Effects& effects) {
        v1::DrainNodeRequest drained;
        v1::ResumeNodeRequest resumed;
        drained.set_name(node);
        resumed.set_name(node);
        return (drain ? core.DrainNode(drained, effects) : core.ResumeNode(resumed, effects)).ok();
      },
      [this, answered, node, drain, wish](bool done) {
        if (!done) return;  // it has not joined yet
        *answered = true;
        if (drain && newest_wish_[node] == wish) oracle.OnDrained("nodes/" + node, true);
      });
  events.After(1, [this, answered, node, drain, wish] {
    if (!*answered && newest_wish_[node] == wish) AskToDrain(node, drain, wish);
  });
}

void Cluster::Tend() {
  if (controller.core() != nullptr) {
    for (const v1::Node& node : controller.core()->Nodes()) {
      const bool left = node.drained() && events.Now() > faults_over_at;
      if (left || (node.quarantined() && !node.drained())) {
        Drain(std::string(controller::ShortName(node.name())), /*drain=*/false);
      }
    }
  }
  operations_.Tidy();
  events.After(30, [this] { Tend(); });
}

void Cluster::PlanJobs() {
  const int jobs = random.Within(1, 4);
  unsubmitted_ = static_cast<size_t>(jobs);
  for (int i = 0; i < jobs; ++i) {
    v1::CreateJobRequest request;
    v1::Job& job = *request.mutable_job();
    job.set_name(absl::StrCat("jobs/j", i));
    job.set_directory(absl::StrCat("/d/j", i));
    job.mutable_spec()->mutable_model()->set_layers(1);
    job.mutable_spec()->mutable_train()->set_steps(random.Within(1, 60));
    job.mutable_spec()->mutable_checkpoint()->set_every_steps(random.Within(3, 15));
    job.mutable_spec()->mutable_checkpoint()->set_keep(random.Within(0, 4));
    job.mutable_spec()->mutable_resources()->set_device("cpu");
    // Never more than the nodes have, if each had one device.
    v1::JobSpec& spec = *job.mutable_spec();
    const int tensor = random.Chance(0.5) ? tensor_ : 1;
    const int data = random.Within(1, static_cast<int>(nodes_.size()));
    spec.mutable_parallel()->set_tensor(tensor);
    spec.mutable_parallel()->set_data(data);
    spec.mutable_parallel()->set_virtual_shards(data);
    spec.mutable_resources()->set_ranks(tensor * data);
    spec.mutable_resources()->set_priority(random.Within(0, 3));
    spec.mutable_resources()->set_spares(random.Within(0, 1));
    spec.mutable_resources()->set_queue(random.Chance(0.3) ? "urgent" : "default");
    spec.set_project(random.Chance(0.4) ? "limited" : "default");
    job.mutable_spec()->mutable_restart()->set_max_without_progress(
        random.Chance(0.7) ? 3 : random.Below(6));
    request.set_request_id(absl::StrCat("r", i));
    // After the nodes have joined: what is feasible is known then.
    events.After(random.Between(2, 20), [this, request] { Submit(request); });
    if (random.Chance(0.15)) {
      events.After(random.Between(3, 40), [this, name = job.name()] { Cancel(name); });
    }
  }
}

// Users repeat what is not answered, with the same request id.
void Cluster::Submit(const v1::CreateJobRequest& request) {
  if (!policy_applied_) return events.After(0.5, [this, request] { Submit(request); });
  auto answered = std::make_shared<bool>(false);
  const auto create = [request](controller::Core& core, controller::Effects& effects) {
    return core.CreateJob(request, effects);
  };
  controller.Ask(create, [this, answered](const absl::StatusOr<v1::JobRecord>& job) {
    if (job.ok()) oracle.OnAcknowledged(*job);
    if (*answered) return;
    // Only nodes that have not come back yet make a job look too big.
    if (!job.ok() && job.status().code() == absl::StatusCode::kFailedPrecondition) return;
    if (!job.ok()) oracle.Violate(absl::StrCat("CreateJob: ", std::string(job.status().message())));
    *answered = true;
    --unsubmitted_;
  });
  events.After(random.Between(0.5, 2), [this, request, answered] {
    if (!*answered) Submit(request);
  });
}

void Cluster::Cancel(const std::string& name) {
  auto answered = std::make_shared<bool>(false);
  controller.Ask(
      [name](controller::Core& core, controller::Effects& effects) {
        v1::CancelJobRequest request;
        request.set_name(name);
        return core.CancelJob(request, effects).ok();
      },
      [answered](bool) { *answered = true; });
  events.After(1, [this, name, answered] {
    if (!*answered) Cancel(name);
  });
}

void Cluster::PlanFaults() {
  if (options.die_at_commit > 0) {
    controller.DieAtCommit(options.die_at_commit, options.die_after);
  }
  if (options.calm) return;
  weather_ = static_cast<Weather>(random.Below(3));
  const int faults = random.Within(0, 8);
  for (int i = 0; i < faults; ++i) {
    const double at = random.Between(1, 45);
    if (options.only_harmless || random.Chance(0.4)) {
      HarmlessFault(at);
    } else {
      HarshFault(at);
    }
  }
  if (!options.only_harmless && random.Chance(0.3)) PlanDamage();
}

void Cluster::PlanDamage() {
  const std::string job = absl::StrCat("jobs/j", random.Below(2));
  for (int i = random.Within(1, 4); i > 0; --i) {
    const double at = random.Between(4, 45);
    faults_over_at = std::max(faults_over_at, at + 10);
    events.At(at, [this, job] { DamageCheckpoint(job); });
  }
}

void Cluster::DamageCheckpoint(const std::string& job) {
  const auto found = oracle.durable().find(job);
  if (found == oracle.durable().end() || !found->second.has_checkpoint()) return;
  const v1::JobRecord& record = found->second;
  Storage& storage = storages[job];
  if (random.Chance(0.2)) {
    const double until = events.Now() + random.Between(0, 8);
    storage.FailUntil(until);
    oracle.OnHarm(job, kForEver);
  } else {
    const auto damage = static_cast<Damage>(random.Below(3));
    const int older = random.Chance(0.3) ? random.Below(record.older_checkpoints_size() + 1) : 0;
    std::vector<v1::CommittedCheckpoint> broken = {record.checkpoint()};
    for (int i = 0; i < older; ++i) broken.push_back(record.older_checkpoints(i));
    for (const v1::CommittedCheckpoint& checkpoint : broken) {
      storage.Break(checkpoint.manifest_digest(), damage);
      oracle.OnDamage(checkpoint.manifest_digest(), damage == Damage::kBadSector);
      oracle.OnHarm(job, kForEver);
    }
  }
  if (random.Chance(0.2) || record.placement().empty()) return;
  const std::string place = record.placement(0).node();
  for (auto& node : nodes_) {
    SimNode* victim = node.get();
    if ("nodes/" + victim->name() != place) continue;
    HarmNode(events.Now() + random.Between(0, 2), events.Now() + 2, victim,
             [](SimNode& it, double) { it.KillTrainer(); });
  }
}

// None of these may interrupt training.
void Cluster::HarmlessFault(double at) {
  SimNode* node = nodes_[random.Below(static_cast<int>(nodes_.size()))].get();
  const double seconds = random.Between(0.1, 4);
  const bool up = random.Chance(0.75), down = !up || random.Chance(0.67);
  const std::string job = absl::StrCat("jobs/j", random.Below(4));
  faults_over_at = std::max(faults_over_at, at + seconds);
  switch (weather_ == Weather::kIsolation ? 6 : random.Below(11)) {
    case 0:
      return controller.DieAtCommit(random.Within(1, 60), random.Chance(0.5));
    case 1:
      return events.At(at, [this, seconds] { controller.Kill(seconds); });
    case 2:
      return events.At(at, [this, seconds] { controller.Pause(seconds * 8); });
    case 3:
      return events.At(at, [node, seconds] { node->KillAgent(seconds); });
    case 4:
      return events.At(at, [node] { node->BreakSession(); });
    case 5:
      faults_over_at = std::max(faults_over_at, at + seconds * 4);
      return events.At(at, [node, seconds] { node->HandOver(seconds * 4); });
    case 6:
      return CutOff(at, weather_ == Weather::kIsolation ? seconds * 12 : seconds, /*all=*/true);
    case 7:
      if (weather_ != Weather::kStorage) return;
      return events.At(at, [this, job, seconds] {
        if (!harmless()) oracle.OnHarm(job, events.Now() + seconds * 12);
        storages[job].StallUntil(events.Now() + seconds * 12);
      });
    case 8:
      return events.At(at, [this, seconds] { controller.SlowDown(seconds / 4, seconds * 5); });
    case 9:
      return events.At(at,
                       [this, jump = random.Between(-5000, 5000)] { controller.JumpClock(jump); });
    default:
      if (weather_ != Weather::kPartitions) return;
      return events.At(at, [node, seconds, up, down] { node->Partition(seconds * 2, up, down); });
  }
}

// Of a controller that nobody hears it is not for one node alone to tell.
void Cluster::CutOff(double at, double seconds, bool all) {
  constexpr double kLessThanALease = 20;
  if (all && nodes_.size() < 2) seconds = std::min(seconds, kLessThanALease);
  faults_over_at = std::max(faults_over_at, at + seconds);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    SimNode* node = nodes_[i].get();
    if (!all && random.Chance(0.5)) continue;
    if (!all) oracle.OnHarm("nodes/" + node->name(), at + seconds);
    events.At(at, [node, seconds] { node->Partition(seconds, /*up=*/true, /*down=*/true); });
  }
}

void Cluster::HarmNode(double at, double until, SimNode* node, void (*what)(SimNode&, double)) {
  events.At(at, [this, node, until, what] {
    oracle.OnHarm("nodes/" + node->name(), until);
    what(*node, until - events.Now());
  });
}

void Cluster::HarmStorage(double at) {
  const std::string job = absl::StrCat("jobs/j", random.Below(4));
  const bool full = random.Chance(0.7);
  const double seconds = full ? random.Between(0.1, 20) : random.Between(100, 900);
  faults_over_at = std::max(faults_over_at, at + seconds);
  oracle.OnHarm(job, at + seconds);
  events.At(at, [this, job, full, seconds] {
    if (full) {
      storages[job].FillUntil(events.Now() + seconds);
    } else {
      storages[job].StallUntil(events.Now() + seconds);
    }
  });
}

void Cluster::HarshFault(double at) {
  SimNode* node = nodes_[random.Below(static_cast<int>(nodes_.size()))].get();
  const double seconds = random.Chance(0.6) ? random.Between(0.2, 10) : random.Between(10, 60);
  const double until = at + seconds;
  const bool up = random.Chance(0.75), down = !up || random.Chance(0.67);
  faults_over_at = std::max(faults_over_at, until);
  switch (random.Below(12)) {
    case 0:
      return HarmNode(at, at, node, [](SimNode& it, double) { it.KillTrainer(); });
    case 1:
      return HarmNode(at, at, node, [](SimNode& it, double) { it.HangTrainer(); });
    case 2:
      return HarmNode(at, at, node, [](SimNode& it, double) { it.StopTrainer(); });
    case 3:
      return HarmNode(at, until, node, [](SimNode& it, double left) { it.Freeze(left, true); });
    case 4:
      return HarmNode(at, until, node, [](SimNode& it, double left) { it.Freeze(left, false); });
    case 5:
      return HarmNode(at, until, node, [](SimNode& it, double left) { it.Reboot(left); });
    case 6:
      return HarmNode(at, until, node, [](SimNode& it, double left) { it.KillAgent(left); });
    case 7:
      oracle.OnHarm("nodes/" + node->name(), until);
      return events.At(at, [node, seconds, up, down] { node->Partition(seconds, up, down); });
    case 8:
      return HarmNode(at, until, node, [](SimNode& it, double left) { it.FillDisk(left); });
    case 9:
      return CutOff(at, seconds, /*all=*/false);
    case 10:
      return HarmStorage(at);
    default:
      return events.At(at, [this, seconds] { controller.Kill(seconds); });
  }
}

std::string Cluster::Run() {
  int count = 0;
  double calm_since = -1;
  while (oracle.violation().empty() && events.RunNext()) {
    if (++count > kMostEvents) oracle.Violate("the events do not end");
    const bool done = unsubmitted_ == 0 && oracle.AllEnded() && events.Now() > faults_over_at;
    if (!done) calm_since = -1;
    if (done && calm_since < 0) calm_since = events.Now();
    const bool tidy = done && oracle.trainers() == 0 && events.Now() > calm_since + kTidySeconds &&
                      controller.core() != nullptr && Oracle::HeldNode(*controller.core()).empty();
    const bool calm = tidy || (done && events.Now() > calm_since + kCalmSeconds);
    if (calm || events.Now() > faults_over_at + kPatienceSeconds) {
      if (controller.core() == nullptr) continue;
      // Who cannot reach a node gives up a start that needs it: at the cost of no step.
      if (options.calm) oracle.CheckStops();
      oracle.AtEnd(*controller.core(), harmless() && weather_ != Weather::kIsolation);
      break;
    }
  }
  if (oracle.violation().empty()) return "";
  return absl::StrFormat("at %.3f s: %s", events.Now(), oracle.violation());
}

void Cluster::OnSpawn(const EpochKey& key, const v1::PrepareEpoch& prepare) {
  EpochWorld& epoch = epochs[key];
  oracle.OnBeginning(key, prepare);
  if (epoch.moved) {
    oracle.Violate(absl::StrCat("ranks of ", key.job, " epoch ", key.epoch,
                                " begin when others have trained"));
  }
  epoch.spec = prepare.spec();
  epoch.ranks = prepare.ranks();
  epoch.step = prepare.checkpoint().step();
}

void Cluster::OnStarted(const EpochKey& key) {
  EpochWorld& epoch = epochs[key];
  const bool all = static_cast<int>(epoch.members.size()) == epoch.ranks &&
                   std::all_of(epoch.members.begin(), epoch.members.end(),
                               [](const auto& member) { return member.second->started(); });
  if (!all) return;
  oracle.OnConnected(key, epoch.step, storages[key.job].Newest(events.Now()));
  epoch.moved_at = events.Now();
  for (const auto& [rank, process] : epoch.members) process->OnAllStarted();
}

void Cluster::TryStep(const EpochKey& key) {
  EpochWorld& epoch = epochs[key];
  if (epoch.in_step || static_cast<int>(epoch.members.size()) != epoch.ranks) return;
  if (epoch.step >= epoch.spec.train().steps()) return;
  for (const auto& [rank, process] : epoch.members) {
    if (!process->MayBegin(epoch.step + 1)) return;
  }
  epoch.in_step = true;
  const double seconds = StallOf(key.job) + step_seconds * random.Between(0.8, 1.2);
  events.After(seconds, [this, key] { FinishStep(key); });
}

void Cluster::FinishStep(const EpochKey& key) {
  EpochWorld& epoch = epochs[key];
  epoch.in_step = false;
  // Nobody finishes a step without the others.
  if (static_cast<int>(epoch.members.size()) != epoch.ranks) return;
  for (const auto& [rank, process] : epoch.members) {
    if (!process->Computes()) return;
  }
  const int64_t step = ++epoch.step;
  epoch.moved = true;
  epoch.moved_at = events.Now();
  const bool final_step = step == epoch.spec.train().steps();
  const bool save = final_step || step % epoch.spec.checkpoint().every_steps() == 0;
  const std::map<int, SimProcess*> members = epoch.members;
  for (const auto& [rank, process] : members) process->OnStepDone(step, save, final_step);
  TryStep(key);
}

void Cluster::OnExit(const SimProcess& rank, bool abrupt) {
  std::map<int, SimProcess*>& members = epochs[rank.identity().key].members;
  const auto found = members.find(rank.identity().rank);
  if (found == members.end() || found->second != &rank) return;
  members.erase(found);
  if (abrupt) LosePeers(rank);
}

void Cluster::LosePeers(const SimProcess& rank) {
  const EpochKey key = rank.identity().key;
  for (const auto& [number, peer] : epochs[key].members) {
    if (peer == &rank || random.Chance(0.5)) continue;
    events.After(random.Between(0.01, 0.3),
                 [process = peer->shared_from_this()] { process->OnPeerLost(); });
  }
}

v1::RecordedCheckpoint Cluster::CheckpointOf(const EpochKey& key, int64_t step) {
  v1::RecordedCheckpoint checkpoint;
  checkpoint.set_epoch(key.epoch);
  checkpoint.set_step(step);
  checkpoint.set_manifest_digest(absl::StrCat(key.job, "-", key.epoch, "-", step));
  return checkpoint;
}

void Cluster::OnPublish(const EpochKey& key, int64_t step) {
  const v1::RecordedCheckpoint checkpoint = CheckpointOf(key, step);
  oracle.OnPublish(key.job, checkpoint.manifest_digest());
  const int64_t keep = epochs[key].spec.checkpoint().keep();
  for (const std::string& gone : storages[key.job].Publish(checkpoint, keep)) {
    oracle.OnDeleted(key.job, gone);
  }
}

}  // namespace strata::simulation
