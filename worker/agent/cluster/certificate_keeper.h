// An agent's own certificate: its first one by a join token, and new ones before it is over.
#ifndef STRATA_WORKER_AGENT_CLUSTER_CERTIFICATE_KEEPER_H_
#define STRATA_WORKER_AGENT_CLUSTER_CERTIFICATE_KEEPER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/tls_files.h"

namespace strata::worker {

struct EnrolmentOptions {
  std::string controller;  // HOST:PORT
  std::string node;        // its name
  std::string folder;      // for node.pem, node.key and authority.pem; made when it is missing
  // ID.SECRET@sha256:DIGEST, as strata token create prints it; empty: there is a certificate.
  std::string join;
};

// Where the certificate and what belongs to it are.
security::TlsFiles EnrolledFiles(const std::string& folder);

// InvalidArgument: the text is no join token.
absl::Status CheckJoin(const std::string& join);

// Makes sure that there is a certificate which is still valid at `now` (Unix time): one that is
// there already, else a new one, by the token. The key is made here and stays here; when the answer
// was lost, asking again with it costs no further use. Unavailable: the controller cannot be
// reached now. Others are final: PermissionDenied (the token), Unauthenticated (the controller is
// not the one that the token names), FailedPrecondition (there is neither certificate nor token).
absl::Status Enrol(const EnrolmentOptions& options, double now);

// Renews the certificate once two thirds of its life are over, and tries again every minute (or
// each twelfth of its life, if that is less) until that is done. A thread of its own.
class CertificateKeeper {
 public:
  explicit CertificateKeeper(EnrolmentOptions options);
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

 private:
  void Run();

  const EnrolmentOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_CERTIFICATE_KEEPER_H_
