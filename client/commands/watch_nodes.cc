// `get nodes --watch`: all nodes, then each that changes.
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/views/job_view.h"
#include "client/views/node_view.h"
#include "common/clock.h"

namespace strata::client {
namespace {

class NodeWatch {
 public:
  NodeWatch(ApiClient& client, const std::string& output, Terminal& terminal)
      : client_(client), as_json_(output == "json"), terminal_(terminal) {}

  int Run() {
    constexpr double kPause = 0.5;
    for (;;) {
      absl::Status status = List();
      if (status.ok()) status = Follow();
      if (interrupts_.interrupted()) return kExitInterrupted;
      if (terminal_.out_error() != 0) return kExitFailed;  // told by the caller
      if (!GoesOn(status)) return FailCall(status, terminal_);
      terminal_.Say(absl::StrCat(absl::string_view(status.message()), "; watching again"));
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
    }
  }

 private:
  // A controller that has gone away comes back; changes that it no longer keeps are listed instead.
  bool GoesOn(const absl::Status& status) const {
    return version_ >= 0 && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                             absl::IsAborted(status) || absl::IsOutOfRange(status));
  }

  // Shows all nodes; later only those that are not as they were.
  absl::Status List() {
    absl::StatusOr<v1::ListNodesResponse> listed = client_.ListNodes();
    if (!listed.ok()) return listed.status();
    const std::map<std::string, v1::Node> before = std::exchange(nodes_, {});
    for (const v1::Node& node : listed->nodes()) nodes_[node.name()] = node;
    if (version_ < 0 && !as_json_) terminal_.Out(Table()[0] + "\n");
    for (const v1::Node& node : listed->nodes()) {
      const auto known = before.find(node.name());
      const bool same =
          known != before.end() && known->second.resource_version() == node.resource_version();
      if (!same) Show(node, /*deleted=*/false);
    }
    for (const auto& [name, node] : before) {
      if (!nodes_.contains(name)) Show(node, /*deleted=*/true);
    }
    version_ = listed->resource_version();
    return absl::OkStatus();
  }

  absl::Status Follow() {
    constexpr double kTick = 0.1;
    v1::WatchNodesRequest request;
    request.set_resource_version(version_);
    const auto stream = client_.WatchNodes(request);
    using Event = Stream<v1::WatchNodesResponse>::Event;
    v1::WatchNodesResponse change;
    for (;;) {
      if (interrupts_.interrupted() || terminal_.out_error() != 0) return absl::OkStatus();
      const Event event = stream->Next(kTick, &change);
      if (event == Event::kEnd) return stream->status();
      if (event != Event::kMessage || !change.has_node()) continue;
      if (change.deleted()) {
        nodes_.erase(change.node().name());
        Show(change.node(), /*deleted=*/true);
        continue;
      }
      // A change does not tell the node's jobs.
      const absl::StatusOr<v1::Node> node = client_.GetNode(change.node().name());
      nodes_[change.node().name()] = node.ok() ? *node : change.node();
      Show(nodes_[change.node().name()], /*deleted=*/false);
    }
  }

  void Show(const v1::Node& node, bool deleted) {
    const std::string name = PlainName(node.name());
    if (as_json_) {
      Json json = deleted ? Json{{"name", name}} : ToJson(node);
      json["deleted"] = deleted;
      return terminal_.Out(ToJsonLine(json));
    }
    if (deleted) return terminal_.Out(name + "  is deleted\n");
    const auto place = std::distance(nodes_.begin(), nodes_.find(node.name()));
    terminal_.Out(Table()[1 + place] + "\n");
  }

  // The head and a line for each node, in columns.
  std::vector<std::string> Table() const {
    std::vector<v1::Node> nodes;
    for (const auto& [name, node] : nodes_) nodes.push_back(node);
    return absl::StrSplit(NodeTable(nodes, common::WallSeconds()), '\n');
  }

  ApiClient& client_;
  const bool as_json_;
  Terminal& terminal_;
  const InterruptScope interrupts_;
  std::map<std::string, v1::Node> nodes_;  // as they were shown
  int64_t version_ = -1;                   // of the list; none yet
};

}  // namespace

int WatchNodes(ApiClient& client, const std::string& output, Terminal& terminal) {
  return NodeWatch(client, output, terminal).Run();
}

}  // namespace strata::client
