#include "controller/logic/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"
#include "controller/logic/placement_view.h"

namespace strata::controller {
namespace {

constexpr size_t kMostNodes = 8;

using Lines = std::vector<std::string>;

void ExplainPlacement(const v1::Job& job, Lines& lines) {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (const v1::RankPlace& place : job.placement()) {
    if (!ranks.contains(place.node())) order.push_back(place.node());
    ranks[place.node()].push_back(place.rank());
  }
  std::vector<std::string> parts;
  for (const std::string& node : order) {
    if (parts.size() == kMostNodes) break;
    parts.push_back(
        absl::StrCat(ShortName(node), " (rank ", absl::StrJoin(ranks[node], ", "), ")"));
  }
  if (order.size() > kMostNodes) parts.push_back(absl::StrCat(order.size() - kMostNodes, " more"));
  lines.push_back(
      absl::StrCat("Epoch ", job.epoch(), " of its ranks is on ", absl::StrJoin(parts, ", "), "."));
}

// The placer's rule, and which nodes it passed over: their devices were not to be had.
void ExplainChoice(ClusterState& state, const v1::Job& job, Lines& lines) {
  std::set<std::string> used;
  for (const v1::RankPlace& place : job.placement()) used.insert(place.node());
  const NodeEntry* some = used.empty() ? nullptr : state.nodes.Find(*used.begin());
  if (some == nullptr) return;
  std::vector<std::string> passed, candidates;  // before the last one used
  for (const NodeEntry* node : state.nodes.Ordered()) {
    if (node->kind != some->kind) continue;
    if (used.contains(node->name)) {
      passed.insert(passed.end(), candidates.begin(), candidates.end());
      candidates.clear();
    } else {
      candidates.push_back(ShortName(node->name));
    }
  }
  if (passed.size() > kMostNodes) {
    const size_t more = passed.size() - kMostNodes;
    passed.resize(kMostNodes);
    passed.push_back(absl::StrCat(more, " more"));
  }
  lines.push_back(absl::StrCat(
      "Its devices were the first of their kind, in the order of the nodes, that were free when "
      "this epoch began",
      passed.empty() ? "."
                     : absl::StrCat("; passed over, as in use, kept for another job or not there "
                                    "then: ",
                                    absl::StrJoin(passed, ", "), ".")));
}

void ExplainNodes(const ClusterState& state, const v1::Job& job, Lines& lines) {
  std::set<std::string> names;
  for (const v1::RankPlace& place : job.placement()) names.insert(place.node());
  for (const std::string& name : names) {
    const NodeEntry* node = state.nodes.Find(name);
    if (node == nullptr || (node->session != 0 && node->state == v1::READY)) continue;
    lines.push_back(absl::StrFormat(
        "%s has not been heard from for %.0f s; its ranks may go on without it until their lease "
        "of %g s is over.",
        ShortName(name), state.SilenceOf(*node), state.timing.lease_seconds));
  }
}

// Which devices are taken, and by whom.
void ExplainWaiting(ClusterState& state, const JobEntry& job, Lines& lines) {
  const DeviceClaims claims = ClaimsOfRecovering(state);
  const Placer::Decision decision =
      state.placer->Place(job.record.spec(), ViewFor(state, &job, claims));
  const bool said = decision.reason == job.record.reason();  // in the first line
  if (!decision.reason.empty() && !said)
    lines.push_back(absl::StrCat("It waits: ", decision.reason, "."));
  std::map<std::string, std::set<std::string>> holders;  // node -> jobs
  for (const auto& [name, node] : state.nodes.all()) {
    for (const auto& [key, hold] : node.holds) {
      holders[name].insert(
          absl::StrCat(ShortName(key.job), hold.stop.has_value() ? " (ending)" : ""));
    }
  }
  for (const auto& [device, claimant] : claims) {
    if (claimant != &job) {
      holders[device.first].insert(
          absl::StrCat(ShortName(claimant->record.name()), " (recovering)"));
    }
  }
  size_t told = 0;
  for (const auto& [name, jobs] : holders) {
    if (told++ == kMostNodes) break;
    lines.push_back(absl::StrCat(ShortName(name), " is used by ", absl::StrJoin(jobs, ", "), "."));
  }
  for (const auto& [name, node] : state.nodes.all()) {
    if (node.Usable() || told++ >= 2 * kMostNodes) continue;
    lines.push_back(absl::StrFormat("%s is not usable: not heard from for %.0f s.", ShortName(name),
                                    state.SilenceOf(node)));
  }
}

void ExplainHistory(const v1::Job& job, Lines& lines) {
  constexpr int kMostEvents = 5;
  for (int i = std::max(0, job.events_size() - kMostEvents); i < job.events_size(); ++i) {
    const v1::JobEvent& event = job.events(i);
    if (IsTerminal(job.state()) && i + 1 == job.events_size()) continue;  // it is the first line
    lines.push_back(absl::StrCat("Epoch ", event.epoch(), " ended at step ", event.step(), " (",
                                 event.lost_steps(), event.lost_steps() == 1 ? " step" : " steps",
                                 " lost): ", event.reason(), "."));
  }
  if (job.has_checkpoint()) {
    lines.push_back(absl::StrCat("The newest checkpoint is of step ", job.checkpoint().step(),
                                 " of ", job.target_step(), ", by epoch ", job.checkpoint().epoch(),
                                 "."));
  }
}

}  // namespace

std::vector<std::string> Explain(ClusterState& state, const JobEntry& job) {
  const v1::Job& record = job.record;
  Lines lines = {absl::StrCat(ShortName(record.name()), " is ", v1::JobState_Name(record.state()),
                              record.reason().empty() ? "" : absl::StrCat(": ", record.reason()),
                              ".")};
  switch (record.state()) {
    case v1::QUEUED:
      ExplainWaiting(state, job, lines);
      break;
    case v1::STARTING:
    case v1::RUNNING:
      ExplainPlacement(record, lines);
      ExplainChoice(state, record, lines);
      ExplainNodes(state, record, lines);
      break;
    case v1::RECOVERING:
      if (state.now < job.next_start_at) {
        lines.push_back(absl::StrFormat("Its ranks are started again in %.1f s.",
                                        job.next_start_at - state.now));
      } else {
        ExplainWaiting(state, job, lines);
      }
      break;
    default:
      break;
  }
  ExplainHistory(record, lines);
  return lines;
}

}  // namespace strata::controller
