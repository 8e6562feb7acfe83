#include "simulation/operations.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "protocol/versions.h"
#include "simulation/cluster.h"

namespace strata::simulation {

void Operations::Insist(const Request& request) {
  const auto answered = std::make_shared<bool>(false);
  cluster_.controller.Ask(request, [answered](const absl::Status&) { *answered = true; });
  cluster_.events.After(1, [this, answered, request] {
    if (!*answered) Insist(request);
  });
}

void Operations::Plan(const v1::Policy& policy) {
  policy_ = policy;
  common::Random& random = cluster_.random;
  if (random.Chance(0.5)) return;
  for (int i = random.Within(0, 6); i > 0; --i) {
    PlanFor(absl::StrCat("jobs/j", random.Below(4)), random.Between(3, 45));
  }
  if (random.Chance(0.3)) PlanPolicies();
  if (cluster_.options.calm) return;
  if (random.Chance(0.3)) PlanUpgrade();
  if (!cluster_.options.only_harmless && random.Chance(0.2)) PlanReplacement();
  for (int i = random.Chance(0.5) ? random.Within(1, 2) : 0; i > 0; --i) PlanRestore();
}

void Operations::Tidy() {
  if (cluster_.controller.core() == nullptr || cluster_.events.Now() < cluster_.faults_over_at) {
    return;
  }
  Insist([policy = policy_](controller::Core& core, controller::Effects& effects) {
    v1::ApplyPolicyRequest request;
    *request.mutable_policy() = policy;
    return core.ApplyPolicy(request, effects).status();
  });
  for (const v1::JobRecord* job : cluster_.controller.core()->Jobs()) {
    if (!job->suspended()) continue;
    GiveTime(job->name());
    Resume(job->name());
  }
}

// ---- jobs

void Operations::PlanFor(const std::string& job, double at) {
  common::Random& random = cluster_.random;
  const int what = random.Below(8);
  const double until = at + random.Between(0.2, 40);
  cluster_.faults_over_at = std::max(cluster_.faults_over_at, at);
  if (what == 0) return cluster_.events.At(at, [this, job] { Delete(job); });
  if (what > 3) return cluster_.events.At(at, [this, job] { Update(job); });
  cluster_.faults_over_at = std::max(cluster_.faults_over_at, until);
  cluster_.events.At(at, [this, job] { Suspend(job); });
  cluster_.events.At(until, [this, job] { Resume(job); });
}

void Operations::Suspend(const std::string& job) {
  Insist([job](controller::Core& core, controller::Effects& effects) {
    v1::SuspendJobRequest request;
    request.set_name(job);
    return core.SuspendJob(request, effects).status();
  });
}

void Operations::Resume(const std::string& job) {
  Insist([job](controller::Core& core, controller::Effects& effects) {
    v1::ResumeJobRequest request;
    request.set_name(job);
    return core.ResumeJob(request, effects).status();
  });
}

// Who is out of time is not resumed.
void Operations::GiveTime(const std::string& job) {
  Insist([job](controller::Core& core, controller::Effects& effects) {
    v1::UpdateJobRequest request;
    request.mutable_job()->set_name(job);
    request.mutable_update_mask()->add_paths("spec.time_limit");
    return core.UpdateJob(request, effects).status();
  });
}

void Operations::Update(const std::string& job) {
  common::Random& random = cluster_.random;
  v1::UpdateJobRequest request;
  request.mutable_job()->set_name(job);
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  switch (random.Below(4)) {
    case 0:
      spec.mutable_resources()->set_priority(random.Within(0, 3));
      request.mutable_update_mask()->add_paths("spec.resources.priority");
      break;
    case 1:
      spec.mutable_resources()->set_queue(random.Chance(0.5) ? "urgent" : "default");
      request.mutable_update_mask()->add_paths("spec.resources.queue");
      break;
    case 2:
      spec.mutable_time_limit()->set_seconds(random.Within(5, 60));
      request.mutable_update_mask()->add_paths("spec.time_limit");
      break;
    default:
      spec.mutable_train()->set_steps(random.Within(1, 80));
      request.mutable_update_mask()->add_paths("spec.train.steps");
  }
  Insist([request](controller::Core& core, controller::Effects& effects) {
    return core.UpdateJob(request, effects).status();
  });
}

void Operations::Delete(const std::string& job) {
  Insist([job](controller::Core& core, controller::Effects& effects) {
    v1::DeleteJobRequest request;
    request.set_name(job);
    request.set_force(true);
    return core.DeleteJob(request, effects);
  });
}

// ---- the policy

void Operations::PlanPolicies() {
  for (int i = cluster_.random.Within(1, 3); i > 0; --i) {
    const double at = cluster_.random.Between(4, 45);
    cluster_.faults_over_at = std::max(cluster_.faults_over_at, at);
    cluster_.events.At(at, [this] {
      Insist([policy = OtherPolicy()](controller::Core& core, controller::Effects& effects) {
        v1::ApplyPolicyRequest request;
        *request.mutable_policy() = policy;
        return core.ApplyPolicy(request, effects).status();
      });
    });
  }
}

// No shorter lease: what is harmless would not be any more.
v1::Policy Operations::OtherPolicy() {
  common::Random& random = cluster_.random;
  v1::Policy policy = policy_;
  v1::TimingPolicy& timing = *policy.mutable_timing();
  timing.set_heartbeat_seconds(random.Between(0.5, 1.5));
  timing.set_node_lost_seconds(random.Between(4, 8));
  timing.set_lease_seconds(random.Between(30, 60));
  if (random.Chance(0.5)) timing.set_stop_seconds(random.Between(1, 10));
  v1::QueuePolicy& queue = *policy.mutable_queues(0);
  queue.set_priority(random.Within(0, 2));
  queue.set_preemptible(random.Chance(0.5));
  v1::SchedulingPolicy& scheduling = *policy.mutable_scheduling();
  scheduling.set_min_run_seconds(random.Between(0, 10));
  scheduling.set_preemption_gap(random.Within(0, 1));
  scheduling.set_defragment(random.Chance(0.5));
  if (random.Chance(0.3)) {
    scheduling.mutable_buffer()->set_level("cluster");
    scheduling.mutable_buffer()->set_nodes(1);
  }
  v1::RoleBinding& role = *policy.add_roles();
  role.set_role("operator");
  role.add_members("users/ann");
  return policy;
}

// ---- agents and nodes

// To the next release or back to the one before; now and then that is taken back.
void Operations::PlanUpgrade() {
  common::Random& random = cluster_.random;
  const v1::ProtocolRange own = protocol::OwnRange();
  v1::ProtocolRange other = own;
  if (random.Chance(0.4)) {
    other.set_greatest(own.greatest() - 1);
  } else {
    other.set_greatest(own.greatest() + 1);
    if (random.Chance(0.5)) other.set_least(own.greatest());
  }
  const double at = random.Between(4, 30);
  PlanRelease("b1", other, at);
  if (random.Chance(0.25)) PlanRelease("b0", own, at + random.Between(27, 40));  // all have it
}

// Node by node, and the controller before, between or after them.
void Operations::PlanRelease(const std::string& build, const v1::ProtocolRange& range, double at) {
  common::Random& random = cluster_.random;
  for (const auto& it : cluster_.nodes()) {
    const auto install = [node = it.get(), build](const v1::ProtocolRange& what) {
      node->Upgrade(build, what);
    };
    Install(at + random.Between(0, 10), install, range);
  }
  const double down = random.Between(0.1, 3);
  const auto install = [this, down](const v1::ProtocolRange& what) {
    cluster_.controller.Upgrade(what, down);
  };
  Install(at + random.Between(-2, 12), install, range);
}

void Operations::Install(double at, const std::function<void(const v1::ProtocolRange&)>& install,
                         const v1::ProtocolRange& range) {
  common::Random& random = cluster_.random;
  if (random.Chance(0.2)) {
    v1::ProtocolRange skipped;
    skipped.set_least(protocol::kGreatest + 2);
    skipped.set_greatest(protocol::kGreatest + 2);
    cluster_.events.At(at, [install, skipped] { install(skipped); });
    at += random.Between(1, 12);
  }
  cluster_.faults_over_at = std::max(cluster_.faults_over_at, at + 3);
  cluster_.events.At(at, [install, range] { install(range); });
}

// A machine fails for good, its node is forgotten, and another machine takes its name.
void Operations::PlanReplacement() {
  common::Random& random = cluster_.random;
  SimNode* const node =
      cluster_.nodes()[random.Below(static_cast<int>(cluster_.nodes().size()))].get();
  const double at = random.Between(4, 40), down = random.Between(1, 60);
  cluster_.faults_over_at = std::max(cluster_.faults_over_at, at + down);
  const bool cut_off = random.Chance(0.3);  // instead: what nobody hears trains on
  cluster_.events.At(at, [this, node, down, cut_off] {
    cluster_.oracle.OnHarm("nodes/" + node->name(), cluster_.events.Now() + down);
    if (cut_off) {
      node->Partition(down, /*up=*/true, /*down=*/true);
    } else {
      node->Replace(down);
    }
    Forget(node->name(), 30);
  });
}

void Operations::Forget(const std::string& node, int tries) {
  if (tries == 0) return;
  const auto gone = std::make_shared<bool>(false);
  cluster_.controller.Ask(
      [node](controller::Core& core, controller::Effects& effects) {
        v1::DeleteNodeRequest request;
        request.set_name("nodes/" + node);
        return core.DeleteNode(request, effects);
      },
      [this, gone, node](const absl::Status& deleted) {
        *gone = deleted.ok();
        if (*gone) cluster_.oracle.OnDrained("nodes/" + node, false);
      });
  cluster_.events.After(2, [this, gone, node, tries] {
    if (!*gone) Forget(node, tries - 1);
  });
}

// ---- the store

// The copy is of any time before, and much may have been done since.
void Operations::PlanRestore() {
  common::Random& random = cluster_.random;
  const double copied = random.Between(3, 40), lost = copied + random.Between(0, 20);
  const double down = random.Chance(0.8) ? random.Between(0.1, 5) : random.Between(5, 40);
  cluster_.faults_over_at = std::max(cluster_.faults_over_at, lost + down);
  cluster_.events.At(copied, [this] { cluster_.controller.BackUp(); });
  cluster_.events.At(lost, [this, down] { cluster_.controller.PutBack(down); });
}

}  // namespace strata::simulation
