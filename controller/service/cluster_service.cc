#include "controller/service/cluster_service.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/backup_stream.h"
#include "controller/service/calls/stream_call.h"
#include "controller/service/requests/pages.h"
#include "controller/service/requests/spec_check.h"
#include "proto/strata/v1/cluster.grpc.pb.h"

namespace strata::controller {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;

absl::Status GetNode(const Snapshot& snapshot, const Caller& caller,
                     const v1::GetNodeRequest& request, v1::Node* node) {
  const std::shared_ptr<const SnapshotNode> found = snapshot.nodes.Find(NodeName(request.name()));
  if (found == nullptr) {
    return Refusal(absl::StatusCode::kNotFound, "NODE_NOT_FOUND",
                   absl::StrCat("there is no node ", ShortName(request.name())));
  }
  *node = ShowNode(snapshot, *found);
  HideJobs(snapshot, caller, *node);
  return absl::OkStatus();
}

// Shows one page of what has these names, in their order: the token names the last one shown.
// Returns that of the next page, empty after the last.
template <typename Node, typename Show>
absl::StatusOr<std::string> ShowPage(const std::string& list, const Page& page,
                                     const std::vector<std::string>& names, const Show& show,
                                     google::protobuf::RepeatedPtrField<Node>& shown) {
  auto next = names.begin();
  if (!page.after.empty()) {
    next = std::find(names.begin(), names.end(), page.after);
    if (next == names.end()) {
      return InvalidField("page_token", "names a node that has gone — begin without one");
    }
    ++next;
  }
  size_t bytes = 0;
  for (; next != names.end() && shown.size() < page.size && bytes < kMostPageBytes; ++next) {
    *shown.Add() = show(static_cast<int>(next - names.begin()));
    bytes += shown.rbegin()->ByteSizeLong();
  }
  if (next == names.end()) return std::string();
  return PageToken(list, shown.rbegin()->name());
}

absl::Status ListNodes(const Snapshot& snapshot, const Caller& caller,
                       const v1::ListNodesRequest& request, v1::ListNodesResponse* response) {
  response->set_resource_version(snapshot.resource_version);
  ASSIGN_OR_RETURN(const Page page, ReadPage("nodes", request.page_size(), request.page_token()));
  const std::vector<std::string>& names = *snapshot.node_order;
  const auto show = [&](int i) { return ShowNode(snapshot, *snapshot.nodes.Find(names[i])); };
  ASSIGN_OR_RETURN(*response->mutable_next_page_token(),
                   ShowPage("nodes", page, names, show, *response->mutable_nodes()));
  for (v1::Node& node : *response->mutable_nodes()) HideJobs(snapshot, caller, node);
  return absl::OkStatus();
}

// A page ends where a message would grow too large, sooner only if that is asked for: what one
// message holds is of one moment.
absl::Status GetTopology(const Snapshot& snapshot, const Caller&,
                         const v1::GetTopologyRequest& request, v1::Topology* response) {
  v1::Topology map = ShowTopology(snapshot);
  google::protobuf::RepeatedPtrField<v1::Topology::Node> nodes;
  nodes.Swap(map.mutable_nodes());
  const std::string list = absl::StrCat("topology of ", absl::StrJoin(map.levels(), "/"));
  ASSIGN_OR_RETURN(Page page, ReadPage(list, request.page_size(), request.page_token()));
  if (request.page_size() == 0) page.size = std::numeric_limits<int32_t>::max();
  *response = std::move(map);
  std::vector<std::string> names;
  for (const v1::Topology::Node& node : nodes) names.push_back(node.name());
  const auto show = [&](int i) { return std::move(nodes[i]); };
  ASSIGN_OR_RETURN(*response->mutable_next_page_token(),
                   ShowPage(list, page, names, show, *response->mutable_nodes()));
  return absl::OkStatus();
}

absl::Status CheckNames(const google::protobuf::RepeatedPtrField<std::string>& names) {
  constexpr int kMostNames = 1000;
  if (names.empty() || names.size() > kMostNames) {
    return InvalidField("names", absl::StrCat("has ", names.size(), ": give 1 to ", kMostNames));
  }
  for (const std::string& name : names) RETURN_IF_ERROR(NeedName(name, "nodes/NAME"));
  return absl::OkStatus();
}

// Nobody takes the role admin from himself, as a file without `roles` would.
absl::Status CheckStaysAdmin(const Caller& caller, const v1::Policy& policy,
                             const std::vector<std::string>& standing_admins) {
  const Rights after(caller.identity, policy, standing_admins);
  if (!IsRevoked(caller.identity, policy) && after.Decide("ClusterService/ApplyPolicy", {}).allowed)
    return absl::OkStatus();
  return Refusal(
      absl::StatusCode::kFailedPrecondition, "LOCKOUT",
      absl::StrCat("this policy would take the role admin from ", caller.identity.ToString(),
                   ", who applies it: add {role: admin, members: [", caller.identity.ToString(),
                   "]} under roles:, or let another admin "
                   "apply it"));
}

using RawClusterService = v1::ClusterService::WithRawCallbackMethod_GetNode<
    v1::ClusterService::WithRawCallbackMethod_ListNodes<
        v1::ClusterService::WithRawCallbackMethod_GetCluster<
            v1::ClusterService::WithRawCallbackMethod_GetTopology<
                v1::ClusterService::WithRawCallbackMethod_DrainNode<
                    v1::ClusterService::WithRawCallbackMethod_DrainNodes<
                        v1::ClusterService::WithRawCallbackMethod_ResumeNode<
                            v1::ClusterService::WithRawCallbackMethod_WatchNodes<
                                v1::ClusterService::WithRawCallbackMethod_DeleteNode<
                                    v1::ClusterService::WithRawCallbackMethod_ApplyPolicy<
                                        v1::ClusterService::WithRawCallbackMethod_GetPolicy<
                                            v1::ClusterService::WithRawCallbackMethod_BackupCluster<
                                                v1::ClusterService::
                                                    WithRawCallbackMethod_ListPlanFamilies<
                                                        v1::ClusterService::Service>>>>>>>>>>>>>;

// For calls that answer with a message or a status.
template <typename Response>
absl::Status Answer(absl::StatusOr<Response> result, Response* response) {
  RETURN_IF_ERROR(result.status());
  *response = *std::move(result);
  return absl::OkStatus();
}

class ClusterService final : public RawClusterService {
 public:
  ClusterService(const CallEnvironment& environment, const v1::Cluster& about,
                 NodeWatchHub* watches, FilePool* files)
      : environment_(environment), about_(about), watches_(watches), files_(files) {}

  grpc::ServerUnaryReactor* GetNode(CallbackServerContext* context, const ByteBuffer* request,
                                    ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetNodeRequest, v1::Node>;
    return Call::StartRead(
        environment_, "ClusterService/GetNode", context, request, response,
        [](v1::GetNodeRequest& asked) { return NeedName(asked.name(), "nodes/NAME"); },
        [](const Core& core, const Caller& caller, const v1::GetNodeRequest& asked) -> Call::Later {
          return [snapshot = core.TakeSnapshot(), &caller, &asked](v1::Node* answer) {
            return controller::GetNode(*snapshot, caller, asked, answer);
          };
        });
  }

  grpc::ServerUnaryReactor* ListNodes(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListNodesRequest, v1::ListNodesResponse>;
    return Call::StartRead(
        environment_, "ClusterService/ListNodes", context, request, response, nullptr,
        [](const Core& core, const Caller& caller,
           const v1::ListNodesRequest& asked) -> Call::Later {
          return [snapshot = core.TakeSnapshot(), &caller, &asked](v1::ListNodesResponse* answer) {
            return controller::ListNodes(*snapshot, caller, asked, answer);
          };
        });
  }

  grpc::ServerUnaryReactor* GetCluster(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetClusterRequest, v1::Cluster>;
    return Call::Start(
        environment_, {"ClusterService/GetCluster"}, context, request, response, nullptr,
        [this](Core& core, Effects&, const v1::GetClusterRequest&, v1::Cluster* cluster) {
          *cluster = about_;
          cluster->set_controller_term(core.controller_term());
          cluster->set_uid(core.identity().cluster());
          cluster->set_store_incarnation(core.identity().incarnation());
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetTopology(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetTopologyRequest, v1::Topology>;
    return Call::StartRead(
        environment_, "ClusterService/GetTopology", context, request, response, nullptr,
        [](const Core& core, const Caller& caller,
           const v1::GetTopologyRequest& asked) -> Call::Later {
          return [snapshot = core.TakeSnapshot(), &caller, &asked](v1::Topology* answer) {
            return controller::GetTopology(*snapshot, caller, asked, answer);
          };
        });
  }

  grpc::ServerUnaryReactor* DrainNode(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::DrainNodeRequest, v1::Node>;
    return Call::Start(
        environment_, {"ClusterService/DrainNode", false}, context, request, response,
        [](v1::DrainNodeRequest& asked) { return NeedName(asked.name(), "nodes/NAME"); },
        [](Core& core, Effects& effects, const v1::DrainNodeRequest& asked, v1::Node* node) {
          return Answer(core.DrainNode(asked, effects), node);
        });
  }

  grpc::ServerUnaryReactor* DrainNodes(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::DrainNodesRequest, v1::DrainNodesResponse>;
    return Call::Start(
        environment_, {"ClusterService/DrainNodes", false}, context, request, response,
        [](v1::DrainNodesRequest& asked) { return CheckNames(asked.names()); },
        [](Core& core, Effects& effects, const v1::DrainNodesRequest& asked,
           v1::DrainNodesResponse* drained) {
          return Answer(core.DrainNodes(asked, effects), drained);
        });
  }

  grpc::ServerUnaryReactor* ResumeNode(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::ResumeNodeRequest, v1::Node>;
    return Call::Start(
        environment_, {"ClusterService/ResumeNode", false}, context, request, response,
        [](v1::ResumeNodeRequest& asked) { return NeedName(asked.name(), "nodes/NAME"); },
        [](Core& core, Effects& effects, const v1::ResumeNodeRequest& asked, v1::Node* node) {
          return Answer(core.ResumeNode(asked, effects), node);
        });
  }

  grpc::ServerUnaryReactor* DeleteNode(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::DeleteNodeRequest, v1::DeleteNodeResponse>;
    return Call::Start(
        environment_, {"ClusterService/DeleteNode", false}, context, request, response,
        [](v1::DeleteNodeRequest& asked) { return NeedName(asked.name(), "nodes/NAME"); },
        [](Core& core, Effects& effects, const v1::DeleteNodeRequest& asked,
           v1::DeleteNodeResponse*) { return core.DeleteNode(asked, effects); });
  }

  grpc::ServerWriteReactor<ByteBuffer>* WatchNodes(CallbackServerContext* context,
                                                   const ByteBuffer* request) override {
    const auto call = StreamCall<v1::WatchNodesResponse>::Make(
        environment_, "ClusterService/WatchNodes", *context);
    v1::WatchNodesRequest asked;
    if (absl::Status status = Parse(*request, &asked); !status.ok()) {
      call->End(status);
      return call.get();
    }
    call->Ask(asked, [this, call, asked](const Core& core, const Caller&) {
      watches_->Subscribe(core, asked.name(), asked.resource_version(), call);
    });
    return call.get();
  }

  grpc::ServerUnaryReactor* ApplyPolicy(CallbackServerContext* context, const ByteBuffer* request,
                                        ByteBuffer* response) override {
    using Call = UnaryCall<v1::ApplyPolicyRequest, v1::ApplyPolicyResponse>;
    return Call::Start(
        environment_, {"ClusterService/ApplyPolicy", false}, context, request, response,
        [](v1::ApplyPolicyRequest& asked) {
          if (!asked.has_policy()) return InvalidField("policy", "is missing");
          return CheckPolicy(asked.policy());
        },
        [this](Core& core, Effects& effects, const Caller& caller,
               const v1::ApplyPolicyRequest& asked,
               v1::ApplyPolicyResponse* applied) -> absl::Status {
          RETURN_IF_ERROR(CheckStaysAdmin(caller, asked.policy(), *environment_.standing_admins));
          return Answer(core.ApplyPolicy(asked, effects), applied);
        });
  }

  grpc::ServerUnaryReactor* GetPolicy(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetPolicyRequest, v1::GetPolicyResponse>;
    return Call::StartRead(
        environment_, "ClusterService/GetPolicy", context, request, response, nullptr,
        [](const Core& core, const Caller&, const v1::GetPolicyRequest&) -> Call::Later {
          return [snapshot = core.TakeSnapshot()](v1::GetPolicyResponse* policy) {
            *policy = ShowPolicy(*snapshot);
            return absl::OkStatus();
          };
        });
  }

  grpc::ServerUnaryReactor* ListPlanFamilies(CallbackServerContext* context,
                                             const ByteBuffer* request,
                                             ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListPlanFamiliesRequest, v1::ListPlanFamiliesResponse>;
    return Call::StartRead(
        environment_, "ClusterService/ListPlanFamilies", context, request, response, nullptr,
        [](const Core& core, const Caller&, const v1::ListPlanFamiliesRequest&) -> Call::Later {
          v1::ListPlanFamiliesResponse all;
          *all.mutable_families() = core.plan_families().ToList();
          return [all = std::move(all)](v1::ListPlanFamiliesResponse* answer) {
            *answer = all;
            return absl::OkStatus();
          };
        });
  }

  grpc::ServerWriteReactor<ByteBuffer>* BackupCluster(CallbackServerContext* context,
                                                      const ByteBuffer* request) override {
    using Call = StreamCall<v1::BackupClusterResponse>;
    const auto call = Call::Make(environment_, "ClusterService/BackupCluster", *context);
    v1::BackupClusterRequest asked;
    if (const absl::Status parsed = Parse(*request, &asked); !parsed.ok()) {
      call->End(parsed);
      return call.get();
    }
    call->Ask(asked, [this, call](const Core&, const Caller&) {
      auto backup = BackupStream::Make(about_.directory(), backup_in_progress_);
      if (!backup.ok()) return call->End(backup.status());
      call->Replay(
          files_, "backup", [backup = *backup] { return backup->Next(); },
          [call = call.get()] { call->End(absl::OkStatus()); });
    });
    return call.get();
  }

 private:
  const CallEnvironment environment_;
  const v1::Cluster about_;
  NodeWatchHub* const watches_;
  FilePool* const files_;
  const std::shared_ptr<std::atomic<bool>> backup_in_progress_ =
      std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::unique_ptr<grpc::Service> MakeClusterService(const CallEnvironment& environment,
                                                  const v1::Cluster& about, NodeWatchHub* watches,
                                                  FilePool* files) {
  return std::make_unique<ClusterService>(environment, about, watches, files);
}

}  // namespace strata::controller
