#include "controller/logic/node_removal.h"

#include "absl/strings/str_cat.h"
#include "controller/logic/names.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {
namespace {

constexpr double kWrittenDownSeconds = 3600;
constexpr size_t kMostForgotten = 100;  // at a time

}  // namespace

std::string UseOf(const ClusterState& state, const NodeEntry& node) {
  if (node.state == v1::Node::READY) return "is heard from: stop its agent first";
  if (node.session != 0) {
    return "is not heard from, but its agent's connection is still open: stop the agent first, for "
           "it would come back";
  }
  if (!node.holds.empty()) {
    return absl::StrCat("may still hold ranks of ", ShortName(node.holds.begin()->first.job),
                        ": they are gone when its lease is over");
  }
  for (const std::string& name : state.live) {
    const JobEntry& job = state.jobs.at(name);
    const bool given_up = job.given_up.has_value() && job.given_up->run.members.contains(node.name);
    if (given_up || job.run.members.contains(node.name)) {
      return absl::StrCat("is where ranks of ", ShortName(name), " were: it is waited for");
    }
  }
  return "";
}

void EraseNodes(ClusterState& state, const std::vector<std::string>& names, Effects& effects) {
  for (const std::string& name : names) {
    v1::Node& deleted = effects.deleted_nodes.emplace_back();
    deleted.set_name(name);
    deleted.set_resource_version(++state.resource_version);
    effects.writes.push_back({"nodes", name, "", true});
    state.join_tokens.Forget(ShortName(name), effects);
    state.nodes.Erase(name);
  }
  state.scheduler.made = false;
  RefreshCluster(state);  // nobody points to them any more
  state.cluster_changed = true;
}

void ForgetSilentNodes(ClusterState& state, Effects& effects) {
  if (state.cut_off) return;
  const double limit = state.policy.timing().forget_node_seconds();
  std::vector<std::string> forgotten;
  for (auto& [name, node] : state.nodes.all()) {
    if (node.state != v1::Node::LOST || !node.gone || node.session != 0) continue;
    const double silence = state.SilenceOf(node) + node.earlier_silence;
    if (silence > kWrittenDownSeconds && !node.silence_written) {
      node.silence_written = true;
      SaveNode(state, node, effects);
    }
    if (limit == 0 || silence <= limit || node.drained || node.quarantined) continue;
    if (forgotten.size() < kMostForgotten && UseOf(state, node).empty()) forgotten.push_back(name);
  }
  if (!forgotten.empty()) EraseNodes(state, forgotten, effects);
}

}  // namespace strata::controller
