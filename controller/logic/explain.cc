#include "controller/logic/explain.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "controller/logic/explain_mesh.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"
#include "controller/logic/scheduler_view.h"
#include "planner/order_of_sums.h"
#include "scheduler/placement/runs.h"

namespace strata::controller {
namespace {

constexpr size_t kMostNodes = 8;

using Lines = std::vector<std::string>;

bool IsKindFor(const std::string& asked, const std::string& kind) {
  return asked == "gpu" ? kind != "cpu" : asked == kind;
}

// Among the queued jobs alone; 0: it is none.
int64_t PositionOf(const ClusterState& state, const JobEntry& job) {
  int64_t position = 0;
  for (const auto& [place, queued] : state.queue) {
    ++position;
    if (queued == &job) return position;
  }
  return 0;
}

// "a, b, c, 5 more".
std::string Listed(std::vector<std::string> parts) {
  if (parts.size() > kMostNodes) {
    const size_t more = parts.size() - kMostNodes;
    parts.resize(kMostNodes);
    parts.push_back(absl::StrCat(more, " more"));
  }
  return absl::StrJoin(parts, ", ");
}

// "0-3, 7".
std::string Ranges(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    parts.push_back(last == first ? absl::StrCat(ranks[first])
                                  : absl::StrCat(ranks[first], "-", ranks[last]));
    first = last + 1;
  }
  return Listed(std::move(parts));
}

void ExplainPlacement(const v1::JobRecord& job, Lines& lines) {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (const v1::RankPlace& place : job.placement()) {
    if (!ranks.contains(place.node())) order.push_back(place.node());
    ranks[place.node()].push_back(place.rank());
  }
  std::vector<std::string> parts;
  for (const std::string& node : order) {
    const std::vector<int>& here = ranks[node];
    parts.push_back(
        absl::StrCat(ShortName(node), here.size() > 1 ? " (ranks " : " (rank ", Ranges(here), ")"));
  }
  lines.push_back(absl::StrCat("Attempt ", job.attempt(), " of its ranks is on ",
                               Listed(std::move(parts)), "."));
  const v1::RankLayout& layout = job.layout();
  if (!layout.why().empty()) lines.push_back(absl::StrCat("It was started: ", layout.why(), "."));
  const int64_t asked = DataDegree(job.spec());
  if (layout.data() > 0 && layout.data() != asked) {
    lines.push_back(absl::StrCat("It runs with a data degree of ", layout.data(), " instead of ",
                                 asked, ", for devices were lost; its numbers are the same."));
  }
  std::vector<std::string> spares;
  for (const std::string& spare : layout.spares()) spares.push_back(ShortName(spare));
  if (!spares.empty()) {
    lines.push_back(absl::StrCat("Spare nodes beside it: ", Listed(std::move(spares)), "."));
  }
}

// Which groups of each level of the map it lies in.
void ExplainGroups(const ClusterState& state, const scheduler::Placement& placement, Lines& lines) {
  const topology::Cluster& cluster = state.scheduler.cluster;
  std::vector<std::string> parts;
  for (int depth = 1; depth < cluster.node_depth(); ++depth) {
    std::set<int> groups;
    for (const scheduler::Device& rank : placement.ranks) {
      groups.insert(cluster.GroupOf(rank.node, depth));
    }
    std::vector<std::string> names;
    for (const int group : groups) {
      if (!cluster.groups()[group].name.empty()) names.push_back(cluster.groups()[group].name);
    }
    if (!names.empty()) {
      parts.push_back(absl::StrCat(cluster.DepthName(depth), " ", Listed(std::move(names))));
    }
  }
  if (!parts.empty()) lines.push_back(absl::StrCat("It lies in ", absl::StrJoin(parts, "; "), "."));
}

// "zone 1.5 GiB, domain 12 GiB", outermost first.
std::string BytesByLevel(const topology::Cluster& cluster, const scheduler::Cost& cost) {
  std::vector<std::string> parts;
  for (size_t depth = 0; depth < cost.bytes.size(); ++depth) {
    if (cost.bytes[depth] <= 0) continue;
    parts.push_back(absl::StrCat(cluster.DepthName(static_cast<int>(depth)), " ",
                                 common::FormatBytes(cost.bytes[depth])));
  }
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

// Why the ranks are numbered as they are: what a step sends, against the orders of others.
void ExplainOrder(const ClusterState& state, const v1::JobRecord& job, Lines& lines) {
  const scheduler::Placement placement = PlacementOf(state, job);
  const bool known = std::all_of(placement.ranks.begin(), placement.ranks.end(),
                                 [](const scheduler::Device& rank) { return rank.node >= 0; });
  if (!known || placement.ranks.empty()) return;
  ExplainGroups(state, placement, lines);
  const scheduler::Shape shape = ShapeOf(job, job.layout().data());
  if (static_cast<int64_t>(placement.ranks.size()) != shape.ranks() || shape.ranks() == 1) return;
  const topology::Cluster& cluster = state.scheduler.cluster;
  std::vector<std::string> order;
  for (const planner::Dimension dimension : placement.order) {
    if (shape.degrees[static_cast<size_t>(dimension)] > 1) {
      order.push_back(planner::NameOf(dimension));
    }
  }
  const scheduler::Cost cost = scheduler::CostOf(cluster, shape, placement.order, placement.ranks);
  std::vector<std::string> others;
  for (const scheduler::Comparison& other : scheduler::CompareOrders(cluster, shape, placement)) {
    if (other.name == "random") continue;
    others.push_back(absl::StrCat(other.name, " order: ", BytesByLevel(cluster, other.cost)));
  }
  lines.push_back(absl::StrCat(
      "Its ranks are numbered ", absl::StrJoin(order, ", then "),
      " (innermost first), so that a step sends as little as can be across the outer levels: ",
      BytesByLevel(cluster, cost), " (", absl::StrJoin(others, "; "), ")."));
}

// Which of its constraints its place obeys.
void ExplainConstraints(const ClusterState& state, const v1::JobRecord& job, Lines& lines) {
  const std::vector<scheduler::Device> ranks = PlacementOf(state, job).ranks;
  const bool known = std::all_of(ranks.begin(), ranks.end(),
                                 [](const scheduler::Device& rank) { return rank.node >= 0; });
  for (const scheduler::TopologyConstraint& constraint : ShapeOf(job).topology) {
    const std::string run = absl::StrCat("Each run of ", constraint.ranks, " ranks");
    if (!known) continue;
    const bool obeyed = scheduler::Obeys(state.scheduler.cluster, constraint, ranks);
    lines.push_back(absl::StrCat(
        run, obeyed ? " lies" : " does not lie", " inside one ", constraint.within, ", as is ",
        constraint.preferred ? "preferred" : "required", obeyed ? "." : ": there was no room."));
  }
}

void ExplainNodes(const ClusterState& state, const JobEntry& job, Lines& lines) {
  std::set<std::string> names;
  for (const v1::RankPlace& place : job.record.placement()) names.insert(place.node());
  for (const std::string& name : names) {
    const NodeEntry* node = state.nodes.Find(name);
    if (node == nullptr) continue;
    if (node->drained && !job.record.has_preemption() && !job.waiting.reason.empty()) {
      lines.push_back(absl::StrCat(ShortName(name), " is drained: ", job.waiting.reason, "."));
    }
    if (node->session != 0 && node->state == v1::Node::READY) continue;
    lines.push_back(absl::StrFormat(
        "%s has not been heard from for %.0f s; its ranks may go on without it until their lease "
        "of %g s is over.",
        ShortName(name), state.SilenceOf(*node), state.timing.lease_seconds));
  }
}

// Who has the devices, by node.
void ExplainUse(const ClusterState& state, const JobEntry& job, Lines& lines) {
  std::map<std::string, std::set<std::string>> holders;  // node -> jobs
  for (const auto& [name, node] : state.nodes.all()) {
    for (const auto& [key, hold] : node.holds) {
      holders[name].insert(
          absl::StrCat(ShortName(key.job), hold.stop.has_value() ? " (ending)" : ""));
    }
  }
  for (const std::string& name : state.recovering) {
    const JobEntry& other = state.jobs.at(name);
    if (&other == &job || other.claim_over) continue;
    for (const v1::RankPlace& place : other.record.placement()) {
      holders[place.node()].insert(absl::StrCat(ShortName(name), " (recovering)"));
    }
  }
  size_t told = 0;
  for (const auto& [name, jobs] : holders) {
    if (told++ == kMostNodes) break;
    lines.push_back(absl::StrCat(ShortName(name), " is used by ", absl::StrJoin(jobs, ", "), "."));
  }
  for (const auto& [name, node] : state.nodes.all()) {
    if (node.TakesRanks() || told++ >= 2 * kMostNodes) continue;
    const std::string why =
        !node.Usable()     ? absl::StrFormat("not heard from for %.0f s", state.SilenceOf(node))
        : node.drained     ? "drained"
        : node.leaving     ? "its agent is about to go"
        : node.quarantined ? absl::StrCat("in quarantine, ", node.quarantine_reason)
                           : absl::StrCat("its trainer is of build ", node.build,
                                          ", and ranks are started with build ", node.left_out_for,
                                          ", which most devices of its kind have: upgrade it");
    lines.push_back(absl::StrCat(ShortName(name), " is not usable: ", why, "."));
  }
}

using Response = v1::ExplainJobResponse;

void AddBlocker(const char* code, const std::string& subject, const std::string& text,
                Response& response) {
  Response::Blocker& blocker = *response.add_blockers();
  blocker.set_code(code);
  blocker.set_subject(subject);
  blocker.set_text(text);
}

// Its code, and what kind of resource its subject is.
std::pair<const char*, const char*> CodeOf(scheduler::Blocker::Code code) {
  using Code = scheduler::Blocker::Code;
  switch (code) {
    case Code::kQuota:
      return {"QUOTA", "projects/"};
    case Code::kQueueLimit:
      return {"QUEUE_LIMIT", "queues/"};
    case Code::kTopology:
      return {"TOPOLOGY", ""};
    case Code::kBuffer:
      return {"BUFFER", ""};
    case Code::kReservation:
      return {"RESERVATION", "jobs/"};
    case Code::kDevices:
      break;
  }
  return {"DEVICES", "jobs/"};
}

void AddWaiting(const ClusterState& state, const scheduler::Waiting& waiting, Response& response) {
  for (const scheduler::Blocker& blocker : waiting.blockers) {
    const auto [code, kind] = CodeOf(blocker.code);
    AddBlocker(code, blocker.subject.empty() ? "" : kind + blocker.subject, blocker.text, response);
  }
  response.set_queue_position(waiting.position);
  if (waiting.starts_at.has_value()) {
    *response.mutable_expected_start_time() =
        ToTimestamp(state.wall + (*waiting.starts_at - state.now));
  }
}

// Drained nodes that have devices such as it waits for.
void AddDrained(const ClusterState& state, const JobEntry& job, Response& response) {
  size_t told = 0;
  for (const auto& [name, node] : state.nodes.all()) {
    if (!node.drained || !IsKindFor(job.shape.device, node.kind) || told++ == kMostNodes) continue;
    AddBlocker("DRAINING", name,
               absl::StrCat(ShortName(name), " is drained: its ", node.devices,
                            node.devices == 1 ? " device takes" : " devices take",
                            " no new ranks until strata resume ", ShortName(name)),
               response);
  }
}

// What the scheduler says of the job: on small clusters as it would decide now; where a decision
// takes its time, as it has decided last, a second ago at most.
std::optional<scheduler::Waiting> WaitingOf(ClusterState& state, const JobEntry& job) {
  constexpr size_t kSmall = 256;  // nodes and queued jobs
  const bool small = state.nodes.all().size() + state.queue.size() <= kSmall;
  if (!small && !job.waiting.reason.empty()) return job.waiting;
  const scheduler::View view = MakeView(state);
  scheduler::Decisions decisions = scheduler::Decide(view);
  const auto waiting = decisions.waiting.find(ShortName(job.record.name()));
  if (waiting == decisions.waiting.end()) return std::nullopt;
  return std::move(waiting->second);
}

void ExplainWaiting(ClusterState& state, const JobEntry& job, Lines& lines, Response& response) {
  if (job.record.suspended()) {
    const std::string text = absl::StrCat("It waits until somebody resumes it: strata resume job ",
                                          ShortName(job.record.name()));
    lines.push_back(text + ".");
    return AddBlocker("SUSPENDED", job.record.name(), text, response);
  }
  RefreshCluster(state);
  const std::string never = WhyInfeasible(state, job.shape);
  if (state.scheduler.nodes.empty()) {
    lines.push_back("It waits: no node has joined the cluster yet.");
    AddBlocker("DEVICES", "", "no node has joined the cluster yet", response);
  } else if (never.empty()) {
    const std::optional<scheduler::Waiting> waiting = WaitingOf(state, job);
    if (waiting.has_value()) {
      AddWaiting(state, *waiting, response);
      lines.push_back(absl::StrCat("It waits: ", waiting->reason, "."));
      const std::string& when = waiting->starts_when;
      if (!when.empty()) {
        lines.push_back(
            absl::StrCat(absl::StartsWith(when, "starts ") ? "It " : "It starts ", when, "."));
      }
    }
  } else {
    AddBlocker("TOPOLOGY", "", never, response);
    if (never != job.record.reason()) {  // the first line says it
      lines.push_back(absl::StrCat("It waits: ", never, "."));
    }
  }
  if (response.queue_position() == 0) {  // the scheduler does not look at it
    response.set_queue_position(PositionOf(state, job));
  }
  AddDrained(state, job, response);
  ExplainUse(state, job, lines);
}

void ExplainHistory(const v1::JobRecord& job, Lines& lines) {
  constexpr int kMostEvents = 5;
  for (int i = std::max(0, job.events_size() - kMostEvents); i < job.events_size(); ++i) {
    const v1::JobEvent& event = job.events(i);
    if (IsTerminal(job.state()) && i + 1 == job.events_size()) continue;  // it is the first line
    lines.push_back(absl::StrCat("Attempt ", event.attempt(), " ended at step ", event.step(), " (",
                                 event.lost_steps(), event.lost_steps() == 1 ? " step" : " steps",
                                 " lost): ", event.reason(), "."));
  }
  if (job.has_checkpoint()) {
    lines.push_back(absl::StrCat("The newest checkpoint is of step ", job.checkpoint().step(),
                                 " of ", job.target_step(), "."));
  }
}

// Its ranks are started again only then.
void ExplainBackOff(const ClusterState& state, const JobEntry& job, Lines& lines,
                    Response& response) {
  const std::string text =
      absl::StrFormat("Its ranks are started again in %.1f s", job.next_start_at - state.now);
  lines.push_back(text + ".");
  AddBlocker("BACK_OFF", job.record.name(), text, response);
  *response.mutable_expected_start_time() =
      ToTimestamp(state.wall + (job.next_start_at - state.now));
}

void CountDevices(const ClusterState& state, const JobEntry& job, Response& response) {
  response.set_devices_wanted(job.shape.ranks());
  std::map<std::string, int64_t> free;  // by kind
  const scheduler::Occupancy now = FreeDevices(state);
  for (size_t i = 0; i < state.scheduler.nodes.size(); ++i) {
    const std::string& kind = state.scheduler.nodes[i]->kind;
    if (IsKindFor(job.shape.device, kind)) free[kind] += std::popcount(now.free[i]);
  }
  for (const auto& [kind, devices] : free) {  // one kind has to do
    response.set_devices_free(std::max(response.devices_free(), devices));
  }
}

}  // namespace

v1::ExplainJobResponse Explain(ClusterState& state, const JobEntry& job) {
  const v1::JobRecord& record = job.record;
  Response response;
  response.set_state(record.state());
  Lines lines = {absl::StrCat(ShortName(record.name()), " is ", v1::Job::State_Name(record.state()),
                              record.reason().empty() ? "" : absl::StrCat(": ", record.reason()),
                              ".")};
  if (state.IsAwaited(job) && !IsTerminal(record.state())) {
    lines.push_back(absl::StrFormat(
        "Its record is from a backup: whether it has ranks is asked of the agents that come back, "
        "for %.0f s more; until then it is neither started nor given up.",
        state.restored_until - state.now));
  }
  switch (record.state()) {
    case v1::Job::QUEUED:
      ExplainWaiting(state, job, lines, response);
      break;
    case v1::Job::STARTING:
    case v1::Job::RUNNING:
      *response.mutable_layout() = record.layout();
      ExplainMesh(record, response);
      ExplainPlacement(record, lines);
      ExplainOrder(state, record, lines);
      ExplainConstraints(state, record, lines);
      ExplainNodes(state, job, lines);
      break;
    case v1::Job::RECOVERING:
      if (state.now < job.next_start_at) {
        ExplainBackOff(state, job, lines, response);
      } else {
        ExplainWaiting(state, job, lines, response);
      }
      break;
    default:
      break;
  }
  if (!IsTerminal(record.state())) CountDevices(state, job, response);
  const std::string sums = planner::OrderOfSums(record.spec());
  if (!sums.empty()) lines.push_back(absl::StrCat("Its ", sums, "."));
  ExplainHistory(record, lines);
  response.mutable_lines()->Add(lines.begin(), lines.end());
  return response;
}

}  // namespace strata::controller
