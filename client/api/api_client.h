// The controller's services as plain calls. Every call has a deadline; messages are at most 4 MiB;
// connections that die without a word are noticed by keepalive (a ping after 10 s of silence, 5 s
// for the answer). Calls that change nothing, or nothing twice, are tried again while the
// controller cannot be reached: briefly where a connection is refused, up to the deadline where it
// is slow or breaks, which a busy machine's connections do.
//
// Failures are statuses of the call's code with its details (api/errors.h). Unavailable and
// DeadlineExceeded name the address. Names of resources are those of the API: jobs/NAME.
#ifndef STRATA_CLIENT_API_API_CLIENT_H_
#define STRATA_CLIENT_API_API_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/server_address.h"
#include "proto/strata/v1/access.pb.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/jobs.pb.h"

namespace grpc {
class ChannelCredentials;
}

namespace strata::client {

// What a server sends over time. Destroying it ends the call.
template <typename Message>
class Stream {
 public:
  enum class Event {
    kMessage,  // `message` is the next one
    kIdle,     // nothing came within the time
    kEnd,      // nothing more will come: see status()
  };
  virtual ~Stream() = default;
  // Waits at most `seconds` (signals do not cut that short: keep it small where they matter).
  virtual Event Next(double seconds, Message* message) = 0;
  // After kEnd.
  virtual const absl::Status& status() const = 0;
};

struct ApiOptions {
  double deadline_seconds = 10;   // of each call, repetitions included
  double patience_seconds = 1.5;  // a controller that refuses is asked again this long
  // When a connection has taken `silence_seconds`, before a call, not a stream, waits on for it.
  std::function<void()> on_silence = nullptr;
  double silence_seconds = 0.9;
  // Of the connection; null: neither encrypted nor authenticated.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // Makes each call's `authorization`; null: none. Its errors are the calls'.
  std::function<absl::StatusOr<std::string>()> authorization = nullptr;
};

// Calls may come from any thread; a stream belongs to one.
class ApiClient {
 public:
  virtual ~ApiClient() = default;

  virtual const ServerAddress& address() const = 0;

  // `request` needs a request_id: then the call can be repeated.
  virtual absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& name) = 0;
  // All pages; those of the request are not looked at.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs(v1::ListJobsRequest request) = 0;
  virtual absl::StatusOr<v1::Job> UpdateJob(const v1::UpdateJobRequest& request) = 0;
  virtual absl::Status DeleteJob(const v1::DeleteJobRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> SuspendJob(const v1::SuspendJobRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request) = 0;
  virtual absl::StatusOr<v1::CancelJobsResponse> CancelJobs(
      const v1::CancelJobsRequest& request) = 0;
  // Newest first; `most`: at most so many, 0: all pages.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ListJobEvents(const std::string& job,
                                                                  int32_t most) = 0;
  virtual absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::Node> GetNode(const std::string& name) = 0;
  // All pages, with the version to watch from.
  virtual absl::StatusOr<v1::ListNodesResponse> ListNodes() = 0;
  virtual absl::StatusOr<v1::Cluster> GetCluster() = 0;
  virtual absl::StatusOr<v1::Topology> GetTopology() = 0;
  virtual absl::StatusOr<v1::Node> DrainNode(const v1::DrainNodeRequest& request) = 0;
  virtual absl::StatusOr<v1::DrainNodesResponse> DrainNodes(
      const v1::DrainNodesRequest& request) = 0;
  virtual absl::StatusOr<v1::Node> ResumeNode(const v1::ResumeNodeRequest& request) = 0;
  virtual absl::Status DeleteNode(const v1::DeleteNodeRequest& request) = 0;
  virtual absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(
      const v1::ApplyPolicyRequest& request) = 0;
  virtual absl::StatusOr<v1::GetPolicyResponse> GetPolicy() = 0;
  virtual absl::StatusOr<v1::ListPlanFamiliesResponse> ListPlanFamilies() = 0;
  virtual absl::StatusOr<v1::Identity> GetIdentity() = 0;
  // Not idempotent: a token whose answer was lost stays, unused, until it is over.
  virtual absl::StatusOr<v1::JoinToken> CreateJoinToken(
      const v1::CreateJoinTokenRequest& request) = 0;
  virtual absl::StatusOr<std::vector<v1::JoinToken>> ListJoinTokens() = 0;  // all pages
  virtual absl::Status DeleteJoinToken(const std::string& name) = 0;
  // All pages, newest first; `filter` as ListAuditRecordsRequest's.
  virtual absl::StatusOr<std::vector<v1::AuditRecord>> ListAuditRecords(
      const std::string& filter) = 0;

  // Of the controller's state. DataLoss is the caller's to find: see BackupClusterResponse.
  virtual std::unique_ptr<Stream<v1::BackupClusterResponse>> BackupCluster() = 0;

  // Streams have no deadline: they live as long as what they tell about.
  virtual std::unique_ptr<Stream<v1::JobProgress>> StreamProgress(const std::string& name,
                                                                  int64_t after_step) = 0;
  virtual std::unique_ptr<Stream<v1::LogLine>> StreamLogs(const v1::StreamLogsRequest& request) = 0;
  virtual std::unique_ptr<Stream<v1::WatchNodesResponse>> WatchNodes(
      const v1::WatchNodesRequest& request) = 0;
};

// What the environment says of TLS for connections to `address`: STRATA_TLS_AUTHORITY names the
// file of authorities that may stand behind the controller, STRATA_TLS_CERTIFICATE and
// STRATA_TLS_KEY the caller's own. Null without them, and for Unix sockets. FailedPrecondition:
// what is wrong with these files.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
    const ServerAddress& address);
// A MUNGE credential per call, where STRATA_AUTH is `munge`: by the daemon at STRATA_MUNGE_SOCKET,
// or at the usual place. Null without it, and for Unix sockets. FailedPrecondition: STRATA_AUTH is
// something else.
absl::StatusOr<std::function<absl::StatusOr<std::string>()>> AuthorizationFor(
    const ServerAddress& address);

// Connects with the first call, not here.
std::unique_ptr<ApiClient> MakeApiClient(const ServerAddress& address, const ApiOptions& options);

}  // namespace strata::client

#endif  // STRATA_CLIENT_API_API_CLIENT_H_
