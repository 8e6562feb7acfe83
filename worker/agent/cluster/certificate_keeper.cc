#include "worker/agent/cluster/certificate_keeper.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "proto/strata/v1/access.grpc.pb.h"
#include "security/authority.h"
#include "security/credentials.h"

namespace strata::worker {
namespace {

constexpr double kCallSeconds = 20;
constexpr double kLongestRetry = 60;
constexpr double kRenewAfter = 2.0 / 3;  // of its life
constexpr size_t kDigestSize = sizeof("sha256:") - 1 + 64;

struct Join {
  std::string token;
  std::string digest;
};

absl::StatusOr<Join> ParseJoin(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  const bool good = absl::StrContains(parts.first, '.') &&
                    absl::StartsWith(parts.second, "sha256:") && parts.second.size() == kDigestSize;
  if (good) return Join{parts.first, parts.second};
  return absl::InvalidArgumentError(
      "--join: not of the form ID.SECRET@sha256:DIGEST, as strata token create prints it");
}

absl::StatusOr<v1::EnrollNodeResponse> Ask(const EnrolmentOptions& options,
                                           std::shared_ptr<grpc::ChannelCredentials> credentials,
                                           const v1::EnrollNodeRequest& request) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = v1::AccessService::NewStub(
      grpc::CreateCustomChannel(options.controller, std::move(credentials), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::time_point(std::chrono::milliseconds(
      static_cast<int64_t>(1e3 * (common::WallSeconds() + kCallSeconds)))));
  v1::EnrollNodeResponse response;
  const grpc::Status status = stub->EnrollNode(&context, request, &response);
  if (status.ok()) return response;
  const std::string reason = security::TlsReason(status.error_message());
  const std::string text = absl::StrCat(options.controller, ": ", reason);
  // A server that is not believed stays so; everything else of this code may pass.
  if (reason != status.error_message()) return absl::UnauthenticatedError(text);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(text);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), text);
}

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(folder, ": ", std::strerror(errno)));
}

// The node's key, made if there is none.
absl::StatusOr<std::string> KeyOf(const security::TlsFiles& files) {
  absl::StatusOr<std::string> key = security::ReadPemFile(files.key);
  if (key.ok()) return key;
  ASSIGN_OR_RETURN(const std::string made, security::MakePrivateKey());
  RETURN_IF_ERROR(security::WritePemFile(files.key, made, 0600));
  return made;
}

// Whether there is a certificate of this node that is believed.
absl::Status CheckPresent(const security::TlsFiles& files, const std::string& node, double now) {
  ASSIGN_OR_RETURN(const security::TlsMaterial present,
                   security::ReadTlsFiles(files, security::Side::kClient, now));
  if (present.own.id.path == absl::StrCat("node/", node)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(files.certificate, ": is the certificate of ",
                                                    present.own.id.ToString(), ", not of ", node));
}

absl::Status Renew(const EnrolmentOptions& options) {
  const security::TlsFiles files = EnrolledFiles(options.folder);
  v1::EnrollNodeRequest request;
  request.set_node(options.node);
  ASSIGN_OR_RETURN(const std::string key, security::ReadPemFile(files.key));
  ASSIGN_OR_RETURN(*request.mutable_signing_request(), security::MakeSigningRequest(key));
  ASSIGN_OR_RETURN(auto credentials,
                   security::MakeChannelCredentials(files, common::WallSeconds()));
  ASSIGN_OR_RETURN(const v1::EnrollNodeResponse renewed, Ask(options, credentials, request));
  return security::WritePemFile(files.certificate, renewed.certificate(), 0644);
}

void LogRenewal(const EnrolmentOptions& options, const absl::Status& status) {
  const std::string how = status.ok() ? "renewed" : std::string(status.message());
  std::fprintf(stderr, "strata-worker: the certificate of %s: %s\n", options.node.c_str(),
               how.c_str());
}

}  // namespace

security::TlsFiles EnrolledFiles(const std::string& folder) {
  return {folder + "/node.pem", folder + "/node.key", folder + "/authority.pem"};
}

absl::Status CheckJoin(const std::string& join) { return ParseJoin(join).status(); }

absl::Status Enrol(const EnrolmentOptions& options, double now) {
  const security::TlsFiles files = EnrolledFiles(options.folder);
  const absl::Status present = CheckPresent(files, options.node, now);
  if (present.ok()) return absl::OkStatus();
  if (options.join.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(present.message(), " — give a join token: --join"));
  }
  ASSIGN_OR_RETURN(const Join join, ParseJoin(options.join));
  RETURN_IF_ERROR(MakeFolder(options.folder));
  v1::EnrollNodeRequest request;
  request.set_node(options.node);
  request.set_token(join.token);
  ASSIGN_OR_RETURN(const std::string key, KeyOf(files));
  ASSIGN_OR_RETURN(*request.mutable_signing_request(), security::MakeSigningRequest(key));
  const auto root = std::make_shared<security::PinnedRoot>();
  ASSIGN_OR_RETURN(auto credentials, security::MakePinnedCredentials(join.digest, root));
  ASSIGN_OR_RETURN(const v1::EnrollNodeResponse enrolled, Ask(options, credentials, request));
  // What the connection was believed by, not what was said over it.
  RETURN_IF_ERROR(security::WritePemFile(files.authority, root->Get(), 0644));
  RETURN_IF_ERROR(security::WritePemFile(files.certificate, enrolled.certificate(), 0644));
  return CheckPresent(files, options.node, now);
}

CertificateKeeper::CertificateKeeper(EnrolmentOptions options) : options_(std::move(options)) {
  thread_ = std::thread([this] { Run(); });
}

CertificateKeeper::~CertificateKeeper() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CertificateKeeper::Run() {
  const security::TlsFiles files = EnrolledFiles(options_.folder);
  double not_before = 0;  // Unix time: the next try after one that failed
  for (;;) {
    const auto pem = security::ReadPemFile(files.certificate);
    const auto view = pem.ok() ? security::ReadCertificate(*pem) : pem.status();
    const double life = view.ok() ? view->end - view->begin : kLongestRetry;
    const double due = view.ok() ? view->begin + kRenewAfter * life : 0;
    const double wait = std::max(due, not_before) - common::WallSeconds();
    if (wait > 0) {
      std::unique_lock<std::mutex> lock(mutex_);
      // The wall clock may be set meanwhile: it is looked at again.
      const double seconds = std::min(wait, kLongestRetry);
      changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return closing_; });
      if (closing_) return;
      continue;
    }
    const absl::Status renewed = Renew(options_);
    LogRenewal(options_, renewed);
    not_before = renewed.ok() ? 0 : common::WallSeconds() + std::min(kLongestRetry, life / 12);
  }
}

}  // namespace strata::worker
