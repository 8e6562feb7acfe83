// A controller in the test's own process, with answers that the test scripts.
#ifndef STRATA_CLIENT_API_FAKE_SERVER_H_
#define STRATA_CLIENT_API_FAKE_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/server_address.h"
#include "proto/strata/v1/access.pb.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::client {

// As grpc::Status: a code, a message, and a serialised google.rpc.Status.
struct FakeAnswer {
  int code = 0;
  std::string message;
  std::string details;
};

class FakeServer {
 public:
  template <typename Request, typename Response>
  using Handler = std::function<FakeAnswer(const Request&, Response*)>;
  // Sends with the function given, which returns false once nobody listens.
  template <typename Request, typename Message>
  using StreamHandler =
      std::function<FakeAnswer(const Request&, const std::function<bool(const Message&)>&)>;

  // Listens on a free port of 127.0.0.1.
  FakeServer();
  ~FakeServer();

  ServerAddress address() const;
  // Goes away, its streams with it, and comes back on the same port.
  void Stop();
  void Start();

  // Set before calls come. The defaults answer from what Put stored.
  Handler<v1::CreateJobRequest, v1::Job> create;
  Handler<v1::ListJobsRequest, v1::ListJobsResponse> list;
  Handler<v1::CancelJobRequest, v1::Job> cancel;
  Handler<v1::CancelJobsRequest, v1::CancelJobsResponse> cancel_jobs;
  Handler<v1::UpdateJobRequest, v1::Job> update;
  Handler<v1::ApplyPolicyRequest, v1::ApplyPolicyResponse> apply;
  StreamHandler<v1::StreamProgressRequest, v1::JobProgress> progress;
  StreamHandler<v1::StreamLogsRequest, v1::LogLine> logs;
  StreamHandler<v1::WatchNodesRequest, v1::WatchNodesResponse> watch_nodes;
  StreamHandler<v1::BackupClusterRequest, v1::BackupClusterResponse> backup;
  // Called first in every call; a code other than 0 is the answer. `deadline_seconds`: what the
  // client gave it, infinite without a deadline.
  std::function<FakeAnswer(const std::string& method, double deadline_seconds)> before;

  void Put(const v1::Job& job);
  void Put(const v1::Node& node);
  void Put(const v1::GetPolicyResponse& policy);
  void Put(const v1::Topology& map);
  int calls(const std::string& method) const;
  int page_size = 2;  // of lists
  v1::Identity identity;
  v1::ListPlanFamiliesResponse plan_families;
  Handler<v1::ListAuditRecordsRequest, v1::ListAuditRecordsResponse> audit;

 private:
  class Services;
  std::unique_ptr<Services> services_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_API_FAKE_SERVER_H_
