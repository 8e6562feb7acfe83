// Certificates of one cluster, for a controller with TLS and all that connect to it.
#ifndef STRATA_TESTS_BENCH_BENCH_CERTIFICATES_H_
#define STRATA_TESTS_BENCH_BENCH_CERTIFICATES_H_

#include <memory>
#include <string>

#include "grpcpp/security/credentials.h"
#include "security/authority.h"
#include "security/tls_files.h"

namespace strata::bench {

inline constexpr char kBenchUser[] = "user/bench";

class BenchCertificates {
 public:
  // Files are written to `directory`, which is made. Ends the process where that cannot be.
  explicit BenchCertificates(const std::string& directory);

  // Of "controller", "node/NAME" or "user/NAME"; made when they are asked for first.
  security::TlsFiles FilesOf(const std::string& path);
  std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::string& path);

 private:
  const std::string directory_;
  std::unique_ptr<security::Authority> authority_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_BENCH_CERTIFICATES_H_
