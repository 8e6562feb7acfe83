#include "scheduler/queue/test_support.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "scheduler/placement/validate.h"

namespace strata::scheduler {

Scene::Scene(int domains, int nodes, int devices) : devices_(devices) {
  description_.levels = {"domain"};
  for (int n = 0; n < domains * nodes; ++n) {
    topology::Node node;
    node.name = absl::StrCat("n", n);
    node.kind = "h100";
    node.devices = devices;
    for (int d = 0; d < devices; ++d) node.free.push_back(d);
    node.at = {absl::StrCat("d", n / nodes)};
    description_.nodes.push_back(node);
  }
  view.now = 10'000;
}

void Scene::SetKind(int node, const std::string& kind) { description_.nodes[node].kind = kind; }
void Scene::SetHealthy(int node, bool healthy) { description_.nodes[node].healthy = healthy; }

JobView& Scene::Queue(const std::string& name, int64_t ranks, int64_t tensor) {
  Shape shape;
  shape.degrees = {tensor, 1, 1, 1, ranks / tensor, 1};
  shape.device = "h100";
  shapes_.push_back({name, shape});
  JobView job;
  job.name = name;
  job.shape = &shapes_.back().second;
  job.order = submitted_++;
  job.submitted_at = view.now;
  view.jobs.push_back(job);
  return view.jobs.back();
}

JobView& Scene::Run(const std::string& name, const std::vector<Device>& devices) {
  JobView& job = Queue(name, static_cast<int64_t>(devices.size()));
  job.phase = JobPhase::kRunning;
  job.started_at = view.now - 1000;
  job.checkpoint_at = view.now;
  job.held.emplace();
  job.held->ranks = devices;
  job.held->kind = description_.nodes[std::max(0, devices.at(0).node)].kind;
  job.held->order.assign(planner::kAllDimensions.begin(), planner::kAllDimensions.end());
  ShapeOf(name).device = job.held->kind;
  return job;
}

JobView& Scene::RunOn(const std::string& name, const std::vector<int>& nodes) {
  std::vector<Device> devices;
  for (int n : nodes) {
    for (int d = 0; d < devices_; ++d) devices.push_back({n, d});
  }
  return Run(name, devices);
}

JobView& Scene::Recover(const std::string& name, const std::vector<Device>& devices) {
  JobView& job = Run(name, devices);
  job.phase = JobPhase::kRecovering;
  job.failed_at = view.now - 1;
  return job;
}

Shape& Scene::ShapeOf(const std::string& name) {
  const auto at = std::find_if(shapes_.begin(), shapes_.end(),
                               [&](const auto& shape) { return shape.first == name; });
  STRATA_CHECK(at != shapes_.end());
  return at->second;
}

JobView& Scene::Job(const std::string& name) {
  const auto at = std::find_if(view.jobs.begin(), view.jobs.end(),
                               [&](const JobView& job) { return job.name == name; });
  STRATA_CHECK(at != view.jobs.end());
  return *at;
}

const View& Scene::Now() {
  auto cluster = topology::Cluster::Make(description_);
  STRATA_CHECK(cluster.ok());
  cluster_ = *std::move(cluster);
  view.cluster = &cluster_;
  view.occupancy = Occupancy::Now(cluster_);
  for (const JobView& job : view.jobs) {
    if (job.phase == JobPhase::kQueued) continue;
    for (const Device& d : job.held->ranks) {
      if (d.node >= 0) view.occupancy.free[d.node] &= ~(uint64_t{1} << d.device);
    }
  }
  return view;
}

void Scene::Apply(const Decisions& decisions) {
  for (const Start& start : decisions.starts) {
    JobView& job = Job(start.job);
    job.phase = JobPhase::kRunning;
    job.started_at = job.checkpoint_at = view.now;
    job.held = start.placement;
    job.preempted_by.clear();
  }
  for (const Preemption& preemption : decisions.preemptions) {
    Job(preemption.victim).phase = JobPhase::kStopping;
    Job(preemption.victim).preempted_by = preemption.by;
  }
}

void Scene::EndStopping() {
  for (JobView& job : view.jobs) {
    if (job.phase != JobPhase::kStopping) continue;
    job.phase = JobPhase::kQueued;
    job.held.reset();
  }
}

void Scene::End(const std::string& name) {
  std::erase_if(view.jobs, [&](const JobView& job) { return job.name == name; });
}

void Scene::Pass(double seconds) {
  view.now += seconds;
  for (JobView& job : view.jobs) {
    if (job.phase == JobPhase::kRunning && job.seconds_left.has_value()) {
      job.seconds_left = std::max(0.0, *job.seconds_left - seconds);
    }
  }
}

const Start* StartOf(const Decisions& decisions, const std::string& job) {
  const auto at = std::find_if(decisions.starts.begin(), decisions.starts.end(),
                               [&](const Start& start) { return start.job == job; });
  return at == decisions.starts.end() ? nullptr : &*at;
}

bool Preempts(const Decisions& decisions, const std::string& victim, const std::string& by) {
  return std::any_of(decisions.preemptions.begin(), decisions.preemptions.end(),
                     [&](const Preemption& p) { return p.victim == victim && p.by == by; });
}

std::vector<int> NodesOf(const Placement& placement) {
  std::set<int> nodes;
  for (const Device& d : placement.ranks) nodes.insert(d.node);
  return {nodes.begin(), nodes.end()};
}

namespace {

// What a placement uses, its spares too, as if nothing else were free: what else it might have used
// is for the queue to decide.
Occupancy Taken(const View& view, const Placement& placement) {
  Occupancy taken;
  taken.free.resize(view.cluster->nodes().size(), 0);
  for (const Device& d : placement.ranks) taken.free[d.node] |= uint64_t{1} << d.device;
  for (int node : placement.spares) taken.free[node] = view.occupancy.free[node];
  return taken;
}

// Devices of starts are free, or kept for the job itself, and used once.
std::string BrokenDevices(const View& view, const Decisions& decisions,
                          const std::map<std::string, const JobView*>& jobs) {
  Occupancy left = view.occupancy;
  for (const Start& start : decisions.starts) {
    const JobView& job = *jobs.at(start.job);
    if (job.phase == JobPhase::kQueued) {
      const absl::Status valid =
          Validate(*view.cluster, Taken(view, start.placement), *job.shape, start.placement);
      if (!valid.ok()) return absl::StrCat(start.job, ": ", valid.message());
    }
    Occupancy own = left;
    if (job.phase == JobPhase::kRecovering) {
      for (const Device& d : job.held->ranks) {
        if (d.node >= 0) own.free[d.node] |= uint64_t{1} << d.device;
      }
    }
    for (const Device& d : start.placement.ranks) {
      if ((own.free[d.node] >> d.device & 1) == 0 || !view.cluster->nodes()[d.node].healthy) {
        return absl::StrCat(start.job, ": device ", d.device, " of ",
                            view.cluster->nodes()[d.node].name, " is not to be had");
      }
      own.free[d.node] &= ~(uint64_t{1} << d.device);
      left.free[d.node] &= ~(uint64_t{1} << d.device);
      const std::string& kind = view.cluster->nodes()[d.node].kind;
      if (kind != start.placement.kind ||
          (job.shape->device == "gpu" ? kind == "cpu" : kind != job.shape->device)) {
        return absl::StrCat(start.job, ": a device of kind ", kind);
      }
    }
    const int64_t data = job.shape->degrees[4] * job.shape->degrees[5];
    const auto& fewer = job.shape->fewer_data;
    const bool shrunk = std::find(fewer.begin(), fewer.end(), start.data) != fewer.end();
    if (start.data != data && !(shrunk && job.phase == JobPhase::kRecovering)) {
      return absl::StrCat(start.job, ": data ", start.data);
    }
    if (static_cast<int64_t>(start.placement.ranks.size()) !=
        job.shape->ranks() / data * start.data) {
      return absl::StrCat(start.job, ": not all of its ranks start");
    }
  }
  return "";
}

// Quotas hold after the starts wherever they held before, and no project grows above its own.
std::string BrokenQuotas(const View& view, const Decisions& decisions,
                         const std::map<std::string, const JobView*>& jobs) {
  std::map<std::pair<std::string, std::string>, int64_t> before, after;
  const auto count = [](auto& used, const JobView& job, const Placement& placement, int64_t sign) {
    const int64_t devices = sign * static_cast<int64_t>(placement.ranks.size());
    used[{"p/" + job.project, placement.kind}] += devices;
    used[{"p/" + job.project, "*"}] += devices;
    used[{"q/" + job.queue, "*"}] += devices;
  };
  for (const JobView& job : view.jobs) {
    if (job.phase != JobPhase::kQueued) count(before, job, *job.held, 1);
  }
  after = before;
  for (const Start& start : decisions.starts) {
    const JobView& job = *jobs.at(start.job);
    if (job.phase != JobPhase::kQueued) count(after, job, *job.held, -1);
    count(after, job, start.placement, 1);
  }
  const auto check = [&](const std::string& of, const std::string& kind, int64_t limit) {
    const std::pair<std::string, std::string> key(of, kind);
    return after[key] <= std::max(limit, before[key]);
  };
  for (const auto& [name, project] : view.policy.projects) {
    for (const auto& [kind, limit] : project.device_quota) {
      if (!check("p/" + name, kind, limit)) return "quota of project " + name;
    }
  }
  for (const auto& [name, queue] : view.policy.queues) {
    if (queue.max_devices > 0 && !check("q/" + name, "*", queue.max_devices)) {
      return "limit of queue " + name;
    }
  }
  return "";
}

int64_t Effective(const View& view, const JobView& job) {
  const auto queue = view.policy.queues.find(job.queue);
  return job.priority + (queue == view.policy.queues.end() ? 0 : queue->second.priority);
}

bool MayBorrow(const View& view, const JobView& job) {
  const auto queue = view.policy.queues.find(job.queue);
  return job.preemptible || (queue != view.policy.queues.end() && queue->second.preemptible);
}

// Whole nodes of one kind in one group of the buffer's level, before the decision.
struct WholeNodes {
  int64_t nodes = 0, free = 0, to_recovering = 0, to_others = 0;
};

std::map<std::pair<int, std::string>, WholeNodes> CountWhole(
    const View& view, const Decisions& decisions,
    const std::map<std::string, const JobView*>& jobs) {
  const topology::Cluster& cluster = *view.cluster;
  const auto& levels = cluster.levels();
  const std::string& level = view.policy.buffer->level;
  const auto depth =
      level == kWholeCluster
          ? 0
          : static_cast<int>(std::find(levels.begin(), levels.end(), level) - levels.begin() + 1);
  std::set<int> recovering, others;
  for (const Start& start : decisions.starts) {
    const JobView& job = *jobs.at(start.job);
    const bool shrunk = start.placement.ranks.size() < static_cast<size_t>(job.shape->ranks());
    // One that shrinks may take its nodes after others had theirs.
    if (MayBorrow(view, job) || (job.phase == JobPhase::kRecovering && shrunk)) continue;
    for (const Device& d : start.placement.ranks) {
      (job.phase == JobPhase::kRecovering ? recovering : others).insert(d.node);
    }
  }
  std::map<std::pair<int, std::string>, WholeNodes> parts;
  for (int n = 0; n < static_cast<int>(cluster.nodes().size()); ++n) {
    const topology::Node& node = cluster.nodes()[n];
    WholeNodes& part = parts[{cluster.GroupOf(n, depth), node.kind}];
    ++part.nodes;
    if (!node.healthy || std::popcount(view.occupancy.free[n]) != node.devices) continue;
    ++part.free;
    part.to_recovering += recovering.contains(n) ? 1 : 0;
    part.to_others += others.contains(n) && !recovering.contains(n) ? 1 : 0;
  }
  return parts;
}

// A start that may not take the buffer leaves it whole.
std::string BrokenBuffer(const View& view, const Decisions& decisions,
                         const std::map<std::string, const JobView*>& jobs) {
  if (!view.policy.buffer.has_value()) return "";
  const BufferPolicy& buffer = *view.policy.buffer;
  for (const auto& [key, part] : CountWhole(view, decisions, jobs)) {
    const auto share =
        static_cast<int64_t>(std::ceil(buffer.fraction * static_cast<double>(part.nodes) - 1e-9));
    const int64_t wanted = std::min(part.nodes, std::max(buffer.nodes, share));
    const int64_t left = part.free - part.to_recovering - part.to_others;
    if (part.to_others > 0 && left < wanted) {
      return absl::StrCat("starts took the buffer's ", key.second, " nodes in group ", key.first,
                          ": ", left, " of ", wanted, " are left");
    }
  }
  return "";
}

// A job may be stopped for another one's lost ranks when it had borrowed nodes of the buffer.
bool GivesBack(const View& view, const JobView& victim, const JobView& by) {
  return view.policy.buffer.has_value() && by.phase == JobPhase::kRecovering &&
         !MayBorrow(view, by) && MayBorrow(view, victim);
}

std::string BrokenPreemptions(const View& view, const Decisions& decisions,
                              const std::map<std::string, const JobView*>& jobs) {
  std::set<std::string> victims;
  for (const Preemption& p : decisions.preemptions) {
    if (!victims.insert(p.victim).second) return p.victim + " is preempted twice";
    const JobView& victim = *jobs.at(p.victim);
    const JobView& by = *jobs.at(p.by);
    if (victim.phase != JobPhase::kRunning) return p.victim + " does not run";
    if (by.phase == JobPhase::kRunning || by.phase == JobPhase::kStopping) {
      return p.by + " does not wait";
    }
    if (!decisions.waiting.contains(p.by)) return p.by + " preempts and does not wait";
    if (p.why.empty()) return p.victim + " is not told why";
    if (GivesBack(view, victim, by)) continue;
    if (view.now - victim.started_at < view.policy.min_run_seconds) {
      return p.victim + " is preempted too soon";
    }
    const int64_t over = Effective(view, by) - Effective(view, victim);
    if (view.policy.defragment ? over < 0 : over <= view.policy.preemption_gap) {
      return absl::StrCat(p.victim, " is preempted by a priority only ", over, " higher");
    }
  }
  return "";
}

}  // namespace

std::string Broken(const View& view, const Decisions& decisions) {
  std::map<std::string, const JobView*> jobs;
  std::set<std::string> wanting;
  for (const JobView& job : view.jobs) {
    jobs[job.name] = &job;
    if (job.phase == JobPhase::kQueued || job.phase == JobPhase::kRecovering) {
      wanting.insert(job.name);
    }
  }
  for (const Start& start : decisions.starts) {
    if (wanting.erase(start.job) == 0)
      return start.job + " starts though it does not wait, or twice";
    if (start.why.empty()) return start.job + " is not told why it starts";
  }
  for (const auto& [name, waiting] : decisions.waiting) {
    if (wanting.erase(name) == 0) return name + " is told to wait though it starts or runs";
    if (waiting.reason.empty() || waiting.starts_when.empty()) return name + " waits untold";
  }
  if (!wanting.empty()) return *wanting.begin() + " neither starts nor waits";
  if (std::string broken = BrokenDevices(view, decisions, jobs); !broken.empty()) return broken;
  if (std::string broken = BrokenQuotas(view, decisions, jobs); !broken.empty()) return broken;
  if (std::string broken = BrokenBuffer(view, decisions, jobs); !broken.empty()) return broken;
  return BrokenPreemptions(view, decisions, jobs);
}

}  // namespace strata::scheduler
