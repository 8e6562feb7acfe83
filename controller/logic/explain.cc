#include "controller/logic/explain.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "controller/logic/explain_mesh.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"
#include "controller/logic/scheduler_view.h"
#include "model/model_spec_proto.h"
#include "planner/order_of_sums.h"
#include "planner/performance/catalog.h"
#include "planner/search/job_choice.h"
#include "scheduler/placement/runs.h"
#include "scheduler/placement/step_time.h"

namespace strata::controller {
namespace {

constexpr size_t kMostNodes = 8;

using Lines = std::vector<std::string>;

// Among the queued jobs alone, by age; 0: it is none.
int64_t PositionOf(const Snapshot& snapshot, const v1::JobRecord& job) {
  if (job.state() != v1::Job::QUEUED) return 0;
  const auto age = [](const v1::JobRecord& of) {
    return std::pair(of.created_version(), std::string_view(of.name()));
  };
  int64_t position = 1;
  snapshot.jobs.ForEachAfter("", [&](const v1::JobRecord& other) {
    position += other.state() == v1::Job::QUEUED && age(other) < age(job) ? 1 : 0;
    return true;
  });
  return position;
}

// In seconds.
double SilenceOf(const Snapshot& snapshot, const SnapshotNode& node) {
  return std::max(0.0, snapshot.wall - std::max<double>(*node.heard_wall, snapshot.started_wall));
}

// Null: none was made, or it does not wait.
const scheduler::Waiting* WaitingOf(const Snapshot& snapshot, const v1::JobRecord& job) {
  const auto waiting = snapshot.waiting->find(job.name());
  return waiting == snapshot.waiting->end() ? nullptr : waiting->second.get();
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
void ExplainGroups(const topology::Cluster& cluster, const scheduler::Placement& placement,
                   Lines& lines) {
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

// "A step is predicted to take 4.1 s where its ranks are, and in other orders …"; nothing where
// nobody knows such devices or jobs.
void ExplainStepTime(const topology::Cluster& cluster, const v1::JobRecord& job,
                     const scheduler::Shape& shape, const scheduler::Placement& placement,
                     Lines& lines) {
  const auto model = model::FromProto(job.has_model() ? job.model() : job.spec().model());
  if (!model.ok()) return;
  const std::string& kind = cluster.nodes()[placement.ranks.front().node].kind;
  const auto choice = planner::ChoiceOf(planner::Catalog::Shipped(), {.spec = *model},
                                        SpecWithData(job.spec(), job.layout().data()), kind);
  if (!choice.has_value()) return;
  std::string placed;
  std::vector<std::string> others;
  for (const auto& [order, seconds] : scheduler::StepTimes(*choice, cluster, shape, placement)) {
    const std::string text = common::FormatShortSeconds(seconds);
    if (order == "placed") {
      placed = text;
    } else {
      others.push_back(absl::StrCat(order, " ", text));
    }
  }
  lines.push_back(absl::StrCat("A step is predicted to take ", placed,
                               " where its ranks are; in other orders of the same devices: ",
                               absl::StrJoin(others, ", "), "."));
}

// Why the ranks are numbered as they are: what a step sends, against the orders of others.
void ExplainOrder(const ClusterTree& tree, const v1::JobRecord& job, Lines& lines) {
  const topology::Cluster& cluster = tree.cluster;
  const scheduler::Placement placement = PlacementOf(tree, job);
  const bool known = std::all_of(placement.ranks.begin(), placement.ranks.end(),
                                 [](const scheduler::Device& rank) { return rank.node >= 0; });
  if (!known || placement.ranks.empty()) return;
  const std::string& kind = cluster.nodes()[placement.ranks.front().node].kind;
  if (kind != "cpu") lines.push_back(absl::StrCat("Its devices are of kind ", kind, "."));
  ExplainGroups(cluster, placement, lines);
  const scheduler::Shape shape = ShapeOf(job, job.layout().data());
  if (static_cast<int64_t>(placement.ranks.size()) != shape.ranks() || shape.ranks() == 1) return;
  std::vector<std::string> order;
  for (const planner::Dimension dimension : placement.order) {
    if (shape.degrees[static_cast<size_t>(dimension)] > 1) {
      order.emplace_back(planner::NameOf(dimension));
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
  ExplainStepTime(cluster, job, shape, placement, lines);
}

// Which of its constraints its place obeys.
void ExplainConstraints(const ClusterTree& tree, const v1::JobRecord& job, Lines& lines) {
  const std::vector<scheduler::Device> ranks = PlacementOf(tree, job).ranks;
  const bool known = std::all_of(ranks.begin(), ranks.end(),
                                 [](const scheduler::Device& rank) { return rank.node >= 0; });
  for (const scheduler::TopologyConstraint& constraint : ShapeOf(job).topology) {
    const std::string run = absl::StrCat("Each run of ", constraint.ranks, " ranks");
    if (!known) continue;
    const bool obeyed = scheduler::Obeys(tree.cluster, constraint, ranks);
    lines.push_back(absl::StrCat(
        run, obeyed ? " lies" : " does not lie", " inside one ", constraint.within, ", as is ",
        constraint.preferred ? "preferred" : "required", obeyed ? "." : ": there was no room."));
  }
}

void ExplainNodes(const Snapshot& snapshot, const v1::JobRecord& job, Lines& lines) {
  std::set<std::string> names;
  for (const v1::RankPlace& place : job.placement()) names.insert(place.node());
  const scheduler::Waiting* waiting = WaitingOf(snapshot, job);
  for (const std::string& name : names) {
    const std::shared_ptr<const SnapshotNode> node = snapshot.nodes.Find(name);
    if (node == nullptr) continue;
    if (node->shown.drained() && !job.has_preemption() && waiting != nullptr) {
      lines.push_back(absl::StrCat(ShortName(name), " is drained: ", waiting->reason, "."));
    }
    if (node->usable) continue;
    lines.push_back(absl::StrFormat(
        "%s has not been heard from for %.0f s; its ranks may go on without it until their lease "
        "of %g s is over.",
        ShortName(name), SilenceOf(snapshot, *node),
        TimingOf(snapshot.policy->timing()).lease_seconds));
  }
}

// As the end of a sentence.
std::string WhyUnusable(const Snapshot& snapshot, const SnapshotNode& node) {
  const v1::Node& shown = node.shown;
  if (!node.usable) {
    return absl::StrFormat("not heard from for %.0f s", SilenceOf(snapshot, node));
  }
  if (shown.drained()) return "drained";
  if (shown.leaving()) return "its agent is about to go";
  if (shown.quarantined()) return absl::StrCat("in quarantine, ", shown.quarantine_reason());
  if (shown.build().empty()) {
    return "its agent tells of no trainer for its devices: its log says what is missing";
  }
  return absl::StrCat("its trainer is of build ", shown.build(),
                      ", and ranks are started with build ", node.left_out_for,
                      ", which most devices of its kind have: upgrade it");
}

// Who has the devices, by node.
void ExplainUse(const Snapshot& snapshot, const v1::JobRecord& job, Lines& lines) {
  std::map<std::string, std::set<std::string>> holders;  // node -> jobs
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    for (const SnapshotNode::Holder& holder : node.holders) {
      holders[node.shown.name()].insert(
          absl::StrCat(ShortName(holder.job), holder.ending ? " (ending)" : ""));
    }
    return true;
  });
  for (const auto& [name, recovery] : *snapshot.recovering) {
    if (name == job.name() || recovery.claim_over) continue;
    for (const v1::RankPlace& place : snapshot.jobs.Find(name)->placement()) {
      holders[place.node()].insert(absl::StrCat(ShortName(name), " (recovering)"));
    }
  }
  size_t told = 0;
  for (const auto& [name, jobs] : holders) {
    if (told++ == kMostNodes) break;
    lines.push_back(absl::StrCat(ShortName(name), " is used by ", absl::StrJoin(jobs, ", "), "."));
  }
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    if (node.takes_ranks || told++ >= 2 * kMostNodes) return true;
    lines.push_back(absl::StrCat(ShortName(node.shown.name()),
                                 " is not usable: ", WhyUnusable(snapshot, node), "."));
    return true;
  });
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

google::protobuf::Timestamp WallOf(const Snapshot& snapshot, double at) {
  return ToTimestamp(snapshot.wall + (at - snapshot.now));
}

void AddWaiting(const Snapshot& snapshot, const scheduler::Waiting& waiting, Response& response) {
  for (const scheduler::Blocker& blocker : waiting.blockers) {
    const auto [code, kind] = CodeOf(blocker.code);
    AddBlocker(code, blocker.subject.empty() ? "" : kind + blocker.subject, blocker.text, response);
  }
  response.set_queue_position(waiting.position);
  if (waiting.starts_at.has_value()) {
    *response.mutable_expected_start_time() = WallOf(snapshot, *waiting.starts_at);
  }
}

// Drained nodes that have devices of the kind asked for.
void AddDrained(const Snapshot& snapshot, const std::string& kind, Response& response) {
  size_t told = 0;
  snapshot.nodes.ForEachAfter("", [&](const SnapshotNode& node) {
    const v1::Node& shown = node.shown;
    if (!shown.drained() || !IsKindFor(kind, shown.device())) return true;
    if (told++ == kMostNodes) return false;
    const std::string name = ShortName(shown.name());
    AddBlocker("DRAINING", shown.name(),
               absl::StrCat(name, " is drained: its ", shown.devices(),
                            shown.devices() == 1 ? " device takes" : " devices take",
                            " no new ranks until strata resume ", name),
               response);
    return true;
  });
}

void ExplainWaiting(const Snapshot& snapshot, const v1::JobRecord& job,
                    const scheduler::Shape& shape, Lines& lines, Response& response) {
  if (job.suspended()) {
    const std::string text = absl::StrCat("It waits until somebody resumes it: strata resume job ",
                                          ShortName(job.name()));
    lines.push_back(text + ".");
    return AddBlocker("SUSPENDED", job.name(), text, response);
  }
  const std::string never = WhyInfeasible(snapshot, shape);
  if (snapshot.supply->tree->index.empty()) {
    lines.push_back("It waits: no node has joined the cluster yet.");
    AddBlocker("DEVICES", "", "no node has joined the cluster yet", response);
  } else if (never.empty()) {
    if (const scheduler::Waiting* waiting = WaitingOf(snapshot, job); waiting != nullptr) {
      AddWaiting(snapshot, *waiting, response);
      lines.push_back(absl::StrCat("It waits: ", waiting->reason, "."));
      const std::string& when = waiting->starts_when;
      if (!when.empty()) {
        lines.push_back(
            absl::StrCat(absl::StartsWith(when, "starts ") ? "It " : "It starts ", when, "."));
      }
    }
  } else {
    AddBlocker("TOPOLOGY", "", never, response);
    if (never != job.reason()) {  // the first line says it
      lines.push_back(absl::StrCat("It waits: ", never, "."));
    }
  }
  if (response.queue_position() == 0) {  // the scheduler does not look at it
    response.set_queue_position(PositionOf(snapshot, job));
  }
  AddDrained(snapshot, shape.device, response);
  ExplainUse(snapshot, job, lines);
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

// Its ranks are started again only at `next_start_at`.
void ExplainBackOff(const Snapshot& snapshot, const v1::JobRecord& job, double next_start_at,
                    Lines& lines, Response& response) {
  const std::string text =
      absl::StrFormat("Its ranks are started again in %.1f s", next_start_at - snapshot.now);
  lines.push_back(text + ".");
  AddBlocker("BACK_OFF", job.name(), text, response);
  *response.mutable_expected_start_time() = WallOf(snapshot, next_start_at);
}

void ExplainRecovery(const Snapshot& snapshot, const v1::JobRecord& job,
                     const scheduler::Shape& shape, Lines& lines, Response& response) {
  const auto recovery = snapshot.recovering->find(job.name());
  if (recovery != snapshot.recovering->end() && snapshot.now < recovery->second.next_start_at) {
    ExplainBackOff(snapshot, job, recovery->second.next_start_at, lines, response);
  } else {
    ExplainWaiting(snapshot, job, shape, lines, response);
  }
}

void CountDevices(const Snapshot& snapshot, const scheduler::Shape& shape, Response& response) {
  response.set_devices_wanted(shape.ranks());
  std::map<std::string, int64_t> free;  // by kind
  const std::vector<topology::Node>& nodes = snapshot.supply->tree->cluster.nodes();
  const scheduler::Occupancy now = FreeNow(snapshot);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (IsKindFor(shape.device, nodes[i].kind)) free[nodes[i].kind] += std::popcount(now.free[i]);
  }
  for (const auto& [kind, devices] : free) {  // one kind has to do
    response.set_devices_free(std::max(response.devices_free(), devices));
  }
}

}  // namespace

v1::ExplainJobResponse Explain(const Snapshot& snapshot, const v1::JobRecord& job) {
  Response response;
  response.set_state(job.state());
  Lines lines = {absl::StrCat(ShortName(job.name()), " is ", v1::Job::State_Name(job.state()),
                              job.reason().empty() ? "" : absl::StrCat(": ", job.reason()), ".")};
  if (snapshot.awaited->contains(job.name()) && !IsTerminal(job.state())) {
    lines.push_back(absl::StrFormat(
        "Its record is from a backup: whether it has ranks is asked of the agents that come back, "
        "for %.0f s more; until then it is neither started nor given up.",
        snapshot.restored_until - snapshot.now));
  }
  const scheduler::Shape shape = ShapeOf(job);
  const ClusterTree& tree = *snapshot.supply->tree;
  switch (job.state()) {
    case v1::Job::QUEUED:
      ExplainWaiting(snapshot, job, shape, lines, response);
      break;
    case v1::Job::STARTING:
    case v1::Job::RUNNING:
      *response.mutable_layout() = job.layout();
      ExplainMesh(job, response);
      ExplainPlacement(job, lines);
      ExplainOrder(tree, job, lines);
      ExplainConstraints(tree, job, lines);
      ExplainNodes(snapshot, job, lines);
      break;
    case v1::Job::RECOVERING:
      ExplainRecovery(snapshot, job, shape, lines, response);
      break;
    default:
      break;
  }
  if (!IsTerminal(job.state())) CountDevices(snapshot, shape, response);
  const std::string sums = planner::OrderOfSums(job.spec());
  if (!sums.empty()) lines.push_back(absl::StrCat("Its ", sums, "."));
  ExplainHistory(job, lines);
  response.mutable_lines()->Add(lines.begin(), lines.end());
  return response;
}

}  // namespace strata::controller
