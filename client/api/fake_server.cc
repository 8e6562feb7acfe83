#include "client/api/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "proto/strata/v1/access.grpc.pb.h"
#include "proto/strata/v1/cluster.grpc.pb.h"
#include "proto/strata/v1/jobs.grpc.pb.h"

namespace strata::client {
namespace {

grpc::Status ToGrpc(const FakeAnswer& answer) {
  return grpc::Status(static_cast<grpc::StatusCode>(answer.code), answer.message, answer.details);
}

grpc::Status Unknown(const std::string& name) {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, absl::StrCat(name, " not found"));
}

}  // namespace

class FakeServer::Services final : public v1::JobService::Service,
                                   public v1::ClusterService::Service,
                                   public v1::AccessService::Service {
 public:
  explicit Services(FakeServer& script) : script_(script) {}

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                             &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(static_cast<v1::JobService::Service*>(this));
    builder.RegisterService(static_cast<v1::ClusterService::Service*>(this));
    builder.RegisterService(static_cast<v1::AccessService::Service*>(this));
    server_ = builder.BuildAndStart();
    STRATA_CHECK(server_ != nullptr);
  }

  void Stop() {
    server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    server_->Wait();
    server_.reset();
  }

  int port() const { return port_; }

  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* response) override {
    if (const auto refused = Before(context, "CreateJob"); !refused.ok()) return refused;
    if (script_.create) return ToGrpc(script_.create(*request, response));
    *response = request->job();
    response->set_state(v1::Job::QUEUED);
    if (!request->validate_only()) Put(*response);
    return grpc::Status::OK;
  }

  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    if (const auto refused = Before(context, "GetJob"); !refused.ok()) return refused;
    return Find(request->name(), response);
  }

  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    if (const auto refused = Before(context, "CancelJob"); !refused.ok()) return refused;
    if (script_.cancel) return ToGrpc(script_.cancel(*request, response));
    return Find(request->name(), response);
  }

  grpc::Status CancelJobs(grpc::ServerContext* context, const v1::CancelJobsRequest* request,
                          v1::CancelJobsResponse* response) override {
    if (const auto refused = Before(context, "CancelJobs"); !refused.ok()) return refused;
    return ToGrpc(script_.cancel_jobs(*request, response));
  }

  grpc::Status UpdateJob(grpc::ServerContext* context, const v1::UpdateJobRequest* request,
                         v1::Job* response) override {
    if (const auto refused = Before(context, "UpdateJob"); !refused.ok()) return refused;
    return ToGrpc(script_.update(*request, response));
  }

  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse*) override {
    if (const auto refused = Before(context, "DeleteJob"); !refused.ok()) return refused;
    const std::lock_guard<std::mutex> lock(mutex_);
    return jobs_.erase(request->name()) > 0 ? grpc::Status::OK : Unknown(request->name());
  }

  grpc::Status SuspendJob(grpc::ServerContext* context, const v1::SuspendJobRequest* request,
                          v1::Job* response) override {
    if (const auto refused = Before(context, "SuspendJob"); !refused.ok()) return refused;
    return SetSuspended(request->name(), true, response);
  }

  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    if (const auto refused = Before(context, "ResumeJob"); !refused.ok()) return refused;
    return SetSuspended(request->name(), false, response);
  }

  grpc::Status ListJobEvents(grpc::ServerContext* context, const v1::ListJobEventsRequest* request,
                             v1::ListJobEventsResponse* response) override {
    if (const auto refused = Before(context, "ListJobEvents"); !refused.ok()) return refused;
    v1::Job job;
    if (const auto found = Find(request->parent(), &job); !found.ok()) return found;
    for (int i = job.events_size() - 1; i >= 0; --i) *response->add_events() = job.events(i);
    return grpc::Status::OK;
  }

  grpc::Status ExplainJob(grpc::ServerContext* context, const v1::ExplainJobRequest* request,
                          v1::ExplainJobResponse* response) override {
    if (const auto refused = Before(context, "ExplainJob"); !refused.ok()) return refused;
    response->add_lines("it waits for 2 devices");
    response->add_lines("1 is free");
    response->set_state(v1::Job::QUEUED);
    response->set_queue_position(3);
    response->set_devices_wanted(2);
    response->set_devices_free(1);
    response->mutable_expected_start_time()->set_seconds(1'700'000'000);
    v1::ExplainJobResponse::Blocker& blocker = *response->add_blockers();
    blocker.set_code("DEVICES");
    blocker.set_subject("jobs/other");
    blocker.set_text("other has what it needs");
    v1::Job job;
    return Find(request->name(), &job);
  }

  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    if (const auto refused = Before(context, "ListJobs"); !refused.ok()) return refused;
    if (script_.list) return ToGrpc(script_.list(*request, response));
    return List(jobs_, request->page_token(), response,
                [&](const v1::Job& job) { *response->add_jobs() = job; });
  }

  grpc::Status GetNode(grpc::ServerContext* context, const v1::GetNodeRequest* request,
                       v1::Node* response) override {
    if (const auto refused = Before(context, "GetNode"); !refused.ok()) return refused;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = nodes_.find(request->name());
    if (found == nodes_.end()) return Unknown(request->name());
    *response = found->second;
    return grpc::Status::OK;
  }

  grpc::Status ListNodes(grpc::ServerContext* context, const v1::ListNodesRequest* request,
                         v1::ListNodesResponse* response) override {
    if (const auto refused = Before(context, "ListNodes"); !refused.ok()) return refused;
    return List(nodes_, request->page_token(), response,
                [&](const v1::Node& node) { *response->add_nodes() = node; });
  }

  grpc::Status GetCluster(grpc::ServerContext* context, const v1::GetClusterRequest*,
                          v1::Cluster* response) override {
    if (const auto refused = Before(context, "GetCluster"); !refused.ok()) return refused;
    response->set_version("fake");
    return grpc::Status::OK;
  }

  grpc::Status GetTopology(grpc::ServerContext* context, const v1::GetTopologyRequest* request,
                           v1::Topology* response) override {
    if (const auto refused = Before(context, "GetTopology"); !refused.ok()) return refused;
    const std::lock_guard<std::mutex> lock(mutex_);
    int from = 0;
    static_cast<void>(absl::SimpleAtoi(request->page_token(), &from));
    const int end = std::min(from + script_.page_size, map_.nodes_size());
    *response = map_;
    response->clear_nodes();
    for (int i = from; i < end; ++i) *response->add_nodes() = map_.nodes(i);
    if (end < map_.nodes_size()) response->set_next_page_token(absl::StrCat(end));
    return grpc::Status::OK;
  }

  grpc::Status DrainNode(grpc::ServerContext* context, const v1::DrainNodeRequest* request,
                         v1::Node* response) override {
    if (const auto refused = Before(context, "DrainNode"); !refused.ok()) return refused;
    return SetDrained(request->name(), true, request->reason(), response);
  }

  grpc::Status DrainNodes(grpc::ServerContext* context, const v1::DrainNodesRequest* request,
                          v1::DrainNodesResponse* response) override {
    if (const auto refused = Before(context, "DrainNodes"); !refused.ok()) return refused;
    for (const std::string& name : request->names()) {
      const auto status = SetDrained(name, true, request->reason(), response->add_nodes());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }

  grpc::Status ResumeNode(grpc::ServerContext* context, const v1::ResumeNodeRequest* request,
                          v1::Node* response) override {
    if (const auto refused = Before(context, "ResumeNode"); !refused.ok()) return refused;
    return SetDrained(request->name(), false, "", response);
  }

  grpc::Status DeleteNode(grpc::ServerContext* context, const v1::DeleteNodeRequest* request,
                          v1::DeleteNodeResponse*) override {
    if (const auto refused = Before(context, "DeleteNode"); !refused.ok()) return refused;
    const std::lock_guard<std::mutex> lock(mutex_);
    return nodes_.erase(request->name()) > 0 ? grpc::Status::OK : Unknown(request->name());
  }

  grpc::Status ApplyPolicy(grpc::ServerContext* context, const v1::ApplyPolicyRequest* request,
                           v1::ApplyPolicyResponse* response) override {
    if (const auto refused = Before(context, "ApplyPolicy"); !refused.ok()) return refused;
    return ToGrpc(script_.apply(*request, response));
  }

  grpc::Status GetPolicy(grpc::ServerContext* context, const v1::GetPolicyRequest*,
                         v1::GetPolicyResponse* response) override {
    if (const auto refused = Before(context, "GetPolicy"); !refused.ok()) return refused;
    const std::lock_guard<std::mutex> lock(mutex_);
    *response = policy_;
    return grpc::Status::OK;
  }

  grpc::Status ListPlanFamilies(grpc::ServerContext* context, const v1::ListPlanFamiliesRequest*,
                                v1::ListPlanFamiliesResponse* response) override {
    if (const auto refused = Before(context, "ListPlanFamilies"); !refused.ok()) return refused;
    *response = script_.plan_families;
    return grpc::Status::OK;
  }

  grpc::Status GetIdentity(grpc::ServerContext* context, const v1::GetIdentityRequest*,
                           v1::Identity* response) override {
    if (const auto refused = Before(context, "GetIdentity"); !refused.ok()) return refused;
    *response = script_.identity;
    return grpc::Status::OK;
  }

  grpc::Status ListAuditRecords(grpc::ServerContext* context,
                                const v1::ListAuditRecordsRequest* request,
                                v1::ListAuditRecordsResponse* response) override {
    if (const auto refused = Before(context, "ListAuditRecords"); !refused.ok()) return refused;
    return ToGrpc(script_.audit(*request, response));
  }

  grpc::Status StreamProgress(grpc::ServerContext* context,
                              const v1::StreamProgressRequest* request,
                              grpc::ServerWriter<v1::JobProgress>* writer) override {
    if (const auto refused = Before(context, "StreamProgress"); !refused.ok()) return refused;
    return ToGrpc(script_.progress(
        *request, [&](const v1::JobProgress& p) { return Send(context, writer, p); }));
  }

  grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest* request,
                          grpc::ServerWriter<v1::LogLine>* writer) override {
    if (const auto refused = Before(context, "StreamLogs"); !refused.ok()) return refused;
    v1::Job job;
    if (const auto found = Find(request->name(), &job); !found.ok()) return found;
    return ToGrpc(
        script_.logs(*request, [&](const v1::LogLine& l) { return Send(context, writer, l); }));
  }

  grpc::Status WatchNodes(grpc::ServerContext* context, const v1::WatchNodesRequest* request,
                          grpc::ServerWriter<v1::WatchNodesResponse>* writer) override {
    if (const auto refused = Before(context, "WatchNodes"); !refused.ok()) return refused;
    return ToGrpc(script_.watch_nodes(*request, [&](const v1::WatchNodesResponse& change) {
      return Send(context, writer, change);
    }));
  }

  grpc::Status BackupCluster(grpc::ServerContext* context, const v1::BackupClusterRequest* request,
                             grpc::ServerWriter<v1::BackupClusterResponse>* writer) override {
    if (const auto refused = Before(context, "BackupCluster"); !refused.ok()) return refused;
    return ToGrpc(script_.backup(*request, [&](const v1::BackupClusterResponse& piece) {
      return Send(context, writer, piece);
    }));
  }

  void Put(const v1::Job& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_[job.name()] = job;
    jobs_[job.name()].set_resource_version(++version_);
  }

  void Put(const v1::Node& node) {
    const std::lock_guard<std::mutex> lock(mutex_);
    nodes_[node.name()] = node;
  }

  void Put(const v1::GetPolicyResponse& policy) {
    const std::lock_guard<std::mutex> lock(mutex_);
    policy_ = policy;
  }

  void Put(const v1::Topology& map) {
    const std::lock_guard<std::mutex> lock(mutex_);
    map_ = map;
  }

  int calls(const std::string& method) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(method);
    return found == calls_.end() ? 0 : found->second;
  }

 private:
  template <typename Message>
  static bool Send(grpc::ServerContext* context, grpc::ServerWriter<Message>* writer,
                   const Message& message) {
    return !context->IsCancelled() && writer->Write(message);
  }

  grpc::Status Before(grpc::ServerContext* context, const std::string& method) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++calls_[method];
    }
    if (!script_.before) return grpc::Status::OK;
    const gpr_timespec deadline = context->raw_deadline();
    const bool endless = gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0;
    const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    const double seconds = endless ? std::numeric_limits<double>::infinity()
                                   : static_cast<double>(gpr_time_to_millis(left)) / 1e3;
    return ToGrpc(script_.before(method, seconds));
  }

  grpc::Status Find(const std::string& name, v1::Job* job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end()) return Unknown(name);
    *job = found->second;
    return grpc::Status::OK;
  }

  grpc::Status SetSuspended(const std::string& name, bool suspended, v1::Job* job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end()) return Unknown(name);
    found->second.set_suspended(suspended);
    *job = found->second;
    return grpc::Status::OK;
  }

  grpc::Status SetDrained(const std::string& name, bool drained, const std::string& reason,
                          v1::Node* node) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = nodes_.find(name);
    if (found == nodes_.end()) return Unknown(name);
    found->second.set_drained(drained);
    found->second.set_drain_reason(reason);
    *node = found->second;
    return grpc::Status::OK;
  }

  // page_size items from the token on, which is an index.
  template <typename Item, typename Response, typename Add>
  grpc::Status List(const std::map<std::string, Item>& items, const std::string& token,
                    Response* response, const Add& add) {
    const std::lock_guard<std::mutex> lock(mutex_);
    int from = 0;
    if (!token.empty() && !absl::SimpleAtoi(token, &from)) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "page_token");
    }
    int index = 0;
    for (const auto& [name, item] : items) {
      if (index >= from && index < from + script_.page_size) add(item);
      ++index;
    }
    if (from + script_.page_size < index) {
      response->set_next_page_token(absl::StrCat(from + script_.page_size));
    }
    return grpc::Status::OK;
  }

  FakeServer& script_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::map<std::string, v1::Job> jobs_;
  std::map<std::string, v1::Node> nodes_;
  v1::GetPolicyResponse policy_;
  v1::Topology map_;
  std::map<std::string, int> calls_;
  int64_t version_ = 0;
};

FakeServer::FakeServer() : services_(std::make_unique<Services>(*this)) { Start(); }
FakeServer::~FakeServer() { Stop(); }
ServerAddress FakeServer::address() const {
  return {"127.0.0.1", static_cast<uint16_t>(services_->port())};
}
void FakeServer::Stop() { services_->Stop(); }
void FakeServer::Start() { services_->Start(); }
void FakeServer::Put(const v1::Job& job) { services_->Put(job); }
void FakeServer::Put(const v1::Node& node) { services_->Put(node); }
void FakeServer::Put(const v1::GetPolicyResponse& policy) { services_->Put(policy); }
void FakeServer::Put(const v1::Topology& map) { services_->Put(map); }
int FakeServer::calls(const std::string& method) const { return services_->calls(method); }

}  // namespace strata::client
