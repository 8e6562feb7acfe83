#include "client/api/api_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/api/errors.h"
#include "client/api/grpc_stream.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "proto/strata/v1/access.grpc.pb.h"
#include "proto/strata/v1/cluster.grpc.pb.h"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "security/credentials.h"
#include "security/munge.h"

namespace strata::client {
namespace {

constexpr int kMostMessageBytes = 4 << 20;
constexpr int kPageSize = 1000;
constexpr double kLeastConnectSeconds = 10;
constexpr int kMostPages = 10'000;  // a server that never ends its list is not followed forever

std::shared_ptr<grpc::Channel> OpenChannel(const ServerAddress& address,
                                           const ApiOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  arguments.SetMaxSendMessageSize(kMostMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // any number: streams may be silent
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // In spite of its name, a connection's time limit, handshake included: it may use what its call
  // has. Pauses between refused ones have the limits above and below.
  const double connect_seconds = std::max(options.deadline_seconds, kLeastConnectSeconds);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(1e3 * connect_seconds));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);     // this file decides what is repeated
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a controller is reached directly
  return grpc::CreateCustomChannel(
      address.ToString(),
      options.credentials == nullptr ? grpc::InsecureChannelCredentials() : options.credentials,
      arguments);
}

// gRPC puts its reasons one before the other; the last one is the operating system's.
std::string LastReason(const std::string& message) {
  if (const std::string tls = security::TlsReason(message); tls != message) return tls;
  const size_t colon = message.rfind(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

// Whether a connection was there or on its way, so that somebody listens: otherwise it was refused,
// or the server itself said that it is unavailable.
bool BrokeOnTheWay(const std::string& message) {
  for (const char* sign : {"Timeout", "timed out", "timeout", "Socket closed", "reset by peer",
                           "Broken pipe", "Connection closed", "FD Shutdown"}) {
    if (absl::StrContains(message, sign)) return true;
  }
  return false;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class GrpcApiClient final : public ApiClient {
 public:
  GrpcApiClient(const ServerAddress& address, const ApiOptions& options)
      : address_(address),
        options_(options),
        channel_(OpenChannel(address, options)),
        jobs_(v1::JobService::NewStub(channel_)),
        cluster_(v1::ClusterService::NewStub(channel_)),
        access_(v1::AccessService::NewStub(channel_)) {}

  const ServerAddress& address() const override { return address_; }

  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::CreateJob, request);
  }

  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    v1::GetJobRequest request;
    request.set_name(name);
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::GetJob, request);
  }

  absl::StatusOr<std::vector<v1::Job>> ListJobs(v1::ListJobsRequest request) override {
    return ListAll<v1::Job, v1::ListJobsResponse>(
        *jobs_, &v1::JobService::Stub::ListJobs, std::move(request),
        [](v1::ListJobsResponse& page) { return page.mutable_jobs(); });
  }

  absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::UpdateJob, request);
  }

  absl::Status DeleteJob(const v1::DeleteJobRequest& request) override {
    return Call<v1::DeleteJobResponse>(*jobs_, &v1::JobService::Stub::DeleteJob, request).status();
  }

  absl::StatusOr<v1::Job> SuspendJob(const v1::SuspendJobRequest& request) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::SuspendJob, request);
  }

  absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest& request) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::ResumeJob, request);
  }

  absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request) override {
    return Call<v1::Job>(*jobs_, &v1::JobService::Stub::CancelJob, request);
  }

  absl::StatusOr<v1::CancelJobsResponse> CancelJobs(const v1::CancelJobsRequest& request) override {
    return Call<v1::CancelJobsResponse>(*jobs_, &v1::JobService::Stub::CancelJobs, request);
  }

  absl::StatusOr<std::vector<v1::JobEvent>> ListJobEvents(const std::string& job,
                                                          int32_t most) override {
    v1::ListJobEventsRequest request;
    request.set_parent(job);
    if (most > 0) {
      request.set_page_size(most);
      ASSIGN_OR_RETURN(
          const v1::ListJobEventsResponse page,
          Call<v1::ListJobEventsResponse>(*jobs_, &v1::JobService::Stub::ListJobEvents, request));
      return std::vector<v1::JobEvent>(page.events().begin(), page.events().end());
    }
    return ListAll<v1::JobEvent, v1::ListJobEventsResponse>(
        *jobs_, &v1::JobService::Stub::ListJobEvents, request,
        [](v1::ListJobEventsResponse& page) { return page.mutable_events(); });
  }

  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& name) override {
    v1::ExplainJobRequest request;
    request.set_name(name);
    return Call<v1::ExplainJobResponse>(*jobs_, &v1::JobService::Stub::ExplainJob, request);
  }

  absl::StatusOr<v1::Node> GetNode(const std::string& name) override {
    v1::GetNodeRequest request;
    request.set_name(name);
    return Call<v1::Node>(*cluster_, &v1::ClusterService::Stub::GetNode, request);
  }

  absl::StatusOr<v1::ListNodesResponse> ListNodes() override {
    v1::ListNodesRequest request;
    request.set_page_size(kPageSize);
    v1::ListNodesResponse all;
    RETURN_IF_ERROR(ForEachPage<v1::ListNodesResponse>(
        *cluster_, &v1::ClusterService::Stub::ListNodes, request,
        [&all](v1::ListNodesResponse page) {
          if (all.nodes().empty()) return all.Swap(&page);  // what came since is watched
          for (v1::Node& node : *page.mutable_nodes()) *all.add_nodes() = std::move(node);
        }));
    all.clear_next_page_token();
    return all;
  }

  absl::StatusOr<v1::Cluster> GetCluster() override {
    return Call<v1::Cluster>(*cluster_, &v1::ClusterService::Stub::GetCluster,
                             v1::GetClusterRequest());
  }

  absl::StatusOr<v1::Topology> GetTopology() override {
    v1::Topology map;
    RETURN_IF_ERROR(ForEachPage<v1::Topology>(*cluster_, &v1::ClusterService::Stub::GetTopology,
                                              v1::GetTopologyRequest(), [&map](v1::Topology page) {
                                                if (map.nodes().empty()) return map.Swap(&page);
                                                for (auto& node : *page.mutable_nodes())
                                                  *map.add_nodes() = std::move(node);
                                              }));
    map.clear_next_page_token();
    return map;
  }

  absl::StatusOr<v1::Node> DrainNode(const v1::DrainNodeRequest& request) override {
    return Call<v1::Node>(*cluster_, &v1::ClusterService::Stub::DrainNode, request);
  }

  absl::StatusOr<v1::DrainNodesResponse> DrainNodes(const v1::DrainNodesRequest& request) override {
    return Call<v1::DrainNodesResponse>(*cluster_, &v1::ClusterService::Stub::DrainNodes, request);
  }

  absl::StatusOr<v1::Node> ResumeNode(const v1::ResumeNodeRequest& request) override {
    return Call<v1::Node>(*cluster_, &v1::ClusterService::Stub::ResumeNode, request);
  }

  absl::Status DeleteNode(const v1::DeleteNodeRequest& request) override {
    return Call<v1::DeleteNodeResponse>(*cluster_, &v1::ClusterService::Stub::DeleteNode, request)
        .status();
  }

  absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(
      const v1::ApplyPolicyRequest& request) override {
    return Call<v1::ApplyPolicyResponse>(*cluster_, &v1::ClusterService::Stub::ApplyPolicy,
                                         request);
  }

  absl::StatusOr<v1::GetPolicyResponse> GetPolicy() override {
    return Call<v1::GetPolicyResponse>(*cluster_, &v1::ClusterService::Stub::GetPolicy,
                                       v1::GetPolicyRequest());
  }

  absl::StatusOr<v1::ListPlanFamiliesResponse> ListPlanFamilies() override {
    return Call<v1::ListPlanFamiliesResponse>(
        *cluster_, &v1::ClusterService::Stub::ListPlanFamilies, v1::ListPlanFamiliesRequest());
  }

  absl::StatusOr<v1::JoinToken> CreateJoinToken(
      const v1::CreateJoinTokenRequest& request) override {
    return Call<v1::JoinToken>(*access_, &v1::AccessService::Stub::CreateJoinToken, request);
  }

  absl::StatusOr<std::vector<v1::JoinToken>> ListJoinTokens() override {
    return ListAll<v1::JoinToken, v1::ListJoinTokensResponse>(
        *access_, &v1::AccessService::Stub::ListJoinTokens, v1::ListJoinTokensRequest(),
        [](v1::ListJoinTokensResponse& page) { return page.mutable_tokens(); });
  }

  absl::Status DeleteJoinToken(const std::string& name) override {
    v1::DeleteJoinTokenRequest request;
    request.set_name(name);
    return Call<v1::DeleteJoinTokenResponse>(*access_, &v1::AccessService::Stub::DeleteJoinToken,
                                             request)
        .status();
  }

  absl::StatusOr<v1::Identity> GetIdentity() override {
    return Call<v1::Identity>(*access_, &v1::AccessService::Stub::GetIdentity,
                              v1::GetIdentityRequest());
  }

  std::unique_ptr<Stream<v1::BackupClusterResponse>> BackupCluster() override {
    return Open<v1::BackupClusterResponse>(
        [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return cluster_->PrepareAsyncBackupCluster(context, v1::BackupClusterRequest(), queue);
        });
  }

  absl::StatusOr<std::vector<v1::AuditRecord>> ListAuditRecords(
      const std::string& filter) override {
    v1::ListAuditRecordsRequest request;
    request.set_filter(filter);
    return ListAll<v1::AuditRecord, v1::ListAuditRecordsResponse>(
        *access_, &v1::AccessService::Stub::ListAuditRecords, request,
        [](v1::ListAuditRecordsResponse& page) { return page.mutable_records(); });
  }

  std::unique_ptr<Stream<v1::JobProgress>> StreamProgress(const std::string& name,
                                                          int64_t after_step) override {
    v1::StreamProgressRequest request;
    request.set_name(name);
    request.set_after_step(after_step);
    return Open<v1::JobProgress>([&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
      return jobs_->PrepareAsyncStreamProgress(context, request, queue);
    });
  }

  std::unique_ptr<Stream<v1::LogLine>> StreamLogs(const v1::StreamLogsRequest& request) override {
    return Open<v1::LogLine>([&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
      return jobs_->PrepareAsyncStreamLogs(context, request, queue);
    });
  }

  std::unique_ptr<Stream<v1::WatchNodesResponse>> WatchNodes(
      const v1::WatchNodesRequest& request) override {
    return Open<v1::WatchNodesResponse>(
        [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          return cluster_->PrepareAsyncWatchNodes(context, request, queue);
        });
  }

 private:
  template <typename Message>
  std::unique_ptr<Stream<Message>> Open(const typename GrpcStream<Message>::Prepare& prepare) {
    const auto problem = std::make_shared<absl::Status>();
    const auto authorised = [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
      *problem = Authorise(*context);
      if (!problem->ok()) context->TryCancel();
      return prepare(context, queue);
    };
    return std::make_unique<GrpcStream<Message>>(
        authorised, [this, problem](const grpc::Status& status) {
          return problem->ok() ? Translate(status) : *problem;
        });
  }

  absl::Status Authorise(grpc::ClientContext& context) {
    if (options_.authorization == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string authorization, options_.authorization());
    context.AddMetadata("authorization", authorization);
    return absl::OkStatus();
  }

  // Returns when the connection stands or was refused; when it takes long that is said, and the
  // call goes on waiting.
  void AwaitConnection() {
    if (!options_.on_silence) return;
    const gpr_timespec patience = SecondsFromNow(options_.silence_seconds);
    for (;;) {
      const grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
      if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) return;
      if (!channel_->WaitForStateChange(state, patience)) return options_.on_silence();
    }
  }

  // All calls may be repeated: they read, or are idempotent by name or request_id.
  template <typename Response, typename Stub, typename Request>
  absl::StatusOr<Response> Call(Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    constexpr double kFirstPause = 0.1;
    constexpr double kLongestPause = 1;
    const gpr_timespec deadline = SecondsFromNow(options_.deadline_seconds);
    const double end = clock_.Now() + options_.deadline_seconds;
    AwaitConnection();
    double give_up = end;
    bool was_refused = false;
    for (double pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      RETURN_IF_ERROR(Authorise(context));
      Response response;
      const grpc::Status status = (stub.*method)(&context, request, &response);
      if (status.ok()) return response;
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return Translate(status);
      const double now = clock_.Now();
      const bool refused = !BrokeOnTheWay(status.error_message());
      if (refused && !was_refused) give_up = std::min(end, now + options_.patience_seconds);
      if (!refused) give_up = end;
      was_refused = refused;
      if (now + pause >= give_up) return Translate(status);
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    }
  }

  template <typename Response, typename Stub, typename Request, typename Visit>
  absl::Status ForEachPage(Stub& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                           Request request, const Visit& visit) {
    for (int pages = 0; pages < kMostPages; ++pages) {
      ASSIGN_OR_RETURN(Response page, Call<Response>(stub, method, request));
      request.set_page_token(page.next_page_token());
      visit(std::move(page));
      if (request.page_token().empty()) return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat(address_.ToString(), ": the list does not end"));
  }

  template <typename Item, typename Response, typename Stub, typename Request, typename Items>
  absl::StatusOr<std::vector<Item>> ListAll(Stub& stub,
                                            grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                         const Request&, Response*),
                                            Request request, const Items& items) {
    std::vector<Item> all;
    request.set_page_size(kPageSize);
    RETURN_IF_ERROR(ForEachPage<Response>(stub, method, request, [&](Response page) {
      for (Item& item : *items(page)) all.push_back(std::move(item));
    }));
    return all;
  }

  // About a server that does not answer so.
  absl::string_view WhatToDo(const std::string& message) const {
    if (security::TlsReason(message) != message) {
      return "is this the address, and STRATA_TLS_AUTHORITY the authority, of one cluster?";
    }
    const bool hung_up = absl::StrContains(message, "Socket closed");
    if (hung_up && options_.credentials == nullptr && !address_.is_unix()) {
      return "does it want TLS? (STRATA_TLS_AUTHORITY, STRATA_TLS_CERTIFICATE, STRATA_TLS_KEY)";
    }
    return "is the cluster up? (strata up)";
  }

  // A socket that is there, and not for this user.
  bool IsShut(const std::string& message) const {
    return address_.is_unix() && absl::StrContains(message, "Permission denied");
  }

  absl::Status Translate(const grpc::Status& status) const {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    std::string message = status.error_message();
    if (code == absl::StatusCode::kUnavailable && IsShut(message)) {
      return absl::PermissionDeniedError(
          absl::StrCat(address_.ToString(),
                       ": permission denied — its directory or its socket lets in only its "
                       "user: a group comes in with strata-controller --socket-group"));
    }
    if (code == absl::StatusCode::kUnavailable) {
      message = absl::StrCat(address_.ToString(), " does not answer (", LastReason(message), ") — ",
                             WhatToDo(message));
    } else if (code == absl::StatusCode::kDeadlineExceeded) {
      message = absl::StrCat(address_.ToString(), " did not answer in time (", message,
                             ") — is its process stopped, or the machine overloaded? try again");
    } else if (code == absl::StatusCode::kUnimplemented) {
      message = absl::StrCat(address_.ToString(), " does not know this call (",
                             message.empty() ? "unimplemented" : message,
                             ") — is it a Strata controller of this version?");
    }
    return WithDetails(code, message, status.error_details());
  }

  ServerAddress address_;
  ApiOptions options_;
  common::MonotonicClock clock_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  std::unique_ptr<v1::AccessService::Stub> access_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
    const ServerAddress& address) {
  const security::TlsFiles tls = {Environment("STRATA_TLS_CERTIFICATE"),
                                  Environment("STRATA_TLS_KEY"),
                                  Environment("STRATA_TLS_AUTHORITY")};
  if (address.is_unix()) return nullptr;
  if (!tls.enabled() && !(tls.certificate + tls.key).empty()) {
    return absl::FailedPreconditionError(
        "STRATA_TLS_CERTIFICATE or STRATA_TLS_KEY is set, and STRATA_TLS_AUTHORITY is not — set it "
        "to the file of the cluster's authority");
  }
  if (!tls.enabled()) return nullptr;
  return security::MakeChannelCredentials(tls, common::WallSeconds());
}

absl::StatusOr<std::function<absl::StatusOr<std::string>()>> AuthorizationFor(
    const ServerAddress& address) {
  const std::string method = Environment("STRATA_AUTH");
  if (method.empty() || address.is_unix()) return nullptr;
  if (method != "munge") {
    return absl::FailedPreconditionError(
        absl::StrCat("STRATA_AUTH is ", method, " — munge is all there is, or unset it"));
  }
  return [socket = Environment("STRATA_MUNGE_SOCKET")]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::string credential, security::MungeEncode(socket));
    return absl::StrCat("munge ", credential);
  };
}

std::unique_ptr<ApiClient> MakeApiClient(const ServerAddress& address, const ApiOptions& options) {
  return std::make_unique<GrpcApiClient>(address, options);
}

}  // namespace strata::client
