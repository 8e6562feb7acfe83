#include "security/credentials.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "security/authority.h"

namespace strata::security {
namespace {

using grpc::experimental::CertificateVerifier;
using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::TlsCustomVerificationCheckRequest;

constexpr unsigned kReloadSeconds = 1;
// gRPC's words before a verifier's own.
constexpr char kVerifierSays[] = "Custom verification check failed with error: UNAUTHENTICATED: ";

// Decides at once whether a server is heard.
class ServerVerifier : public ExternalCertificateVerifier {
 public:
  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* verdict) override {
    const grpc::string_ref chain = request->peer_cert_full_chain();
    const absl::Status judged = Judge(absl::string_view(chain.data(), chain.size()));
    *verdict = judged.ok()
                   ? grpc::Status::OK
                   : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(judged.message()));
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  virtual absl::Status Judge(absl::string_view chain) = 0;
};

absl::Status CheckIsController(const SpiffeId& id, const std::string& cluster) {
  if (id.path != kControllerPath) {
    return absl::UnauthenticatedError(
        absl::StrCat("the server is ", id.ToString(), ", not a cluster's controller"));
  }
  if (cluster.empty() || id.cluster == cluster) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the server is the controller of cluster ", id.cluster, ", not of ", cluster));
}

class ControllerVerifier final : public ServerVerifier {
 public:
  ControllerVerifier(std::string roots, std::string cluster)
      : roots_(std::move(roots)), cluster_(std::move(cluster)) {}

 private:
  absl::Status Judge(absl::string_view chain) override {
    ASSIGN_OR_RETURN(const CertificateView view,
                     VerifyChain(chain, roots_, Side::kServer, common::WallSeconds()));
    return CheckIsController(view.id, cluster_);
  }

  const std::string roots_;
  const std::string cluster_;
};

class PinVerifier final : public ServerVerifier {
 public:
  PinVerifier(std::string key_digest, std::shared_ptr<PinnedRoot> root)
      : key_digest_(std::move(key_digest)), root_(std::move(root)) {}

 private:
  absl::Status Judge(absl::string_view chain) override {
    ASSIGN_OR_RETURN(const PinnedChain pinned,
                     VerifyPinnedChain(chain, key_digest_, common::WallSeconds()));
    RETURN_IF_ERROR(CheckIsController(pinned.leaf.id, ""));
    root_->Set(pinned.root);
    return absl::OkStatus();
  }

  const std::string key_digest_;
  const std::shared_ptr<PinnedRoot> root_;
};

std::shared_ptr<grpc::ChannelCredentials> MakeClient(
    const std::string& roots, const std::vector<grpc::experimental::IdentityKeyCertPair>& own,
    std::shared_ptr<CertificateVerifier> verifier) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(roots, own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  // The verifier does the same, and says why not; names are in URIs, not those of hosts.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::move(verifier));
  return grpc::experimental::TlsCredentials(options);
}

std::string Property(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files, double now) {
  ASSIGN_OR_RETURN(const TlsMaterial material, ReadTlsFiles(files, Side::kClient, now));
  std::vector<grpc::experimental::IdentityKeyCertPair> own;
  if (!material.certificate.empty()) own.push_back({material.key, material.certificate});
  return MakeClient(material.authority, own,
                    ExternalCertificateVerifier::Create<ControllerVerifier>(
                        material.authority, material.own.id.cluster));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakePinnedCredentials(
    const std::string& key_digest, std::shared_ptr<PinnedRoot> root) {
  // gRPC wants roots, which the verifier does not ask: some that stand behind nobody.
  ASSIGN_OR_RETURN(const KeyPair nobody, Authority::MakeRoot("nobody", common::WallSeconds()));
  return MakeClient(nobody.certificate, {},
                    ExternalCertificateVerifier::Create<PinVerifier>(key_digest, std::move(root)));
}

std::string TlsReason(const std::string& message) {
  const size_t said = message.find(kVerifierSays);
  if (said != message.npos) return message.substr(said + sizeof(kVerifierSays) - 1);
  if (absl::StrContains(message, "wrong version number")) {
    return "the server does not speak TLS: is this its address?";
  }
  return message;
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsFiles& files) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

ShownCertificate ShownBy(const grpc::AuthContext& context) {
  ShownCertificate shown;
  shown.is_tls = Property(context, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME) == "tls";
  if (!shown.is_tls) return shown;
  shown.chain = Property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!shown.chain.empty()) {
    shown.chain += Property(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME);
  }
  return shown;
}

}  // namespace strata::security
