#include "tests/bench/bench_certificates.h"

#include <filesystem>

#include "common/check.h"
#include "common/clock.h"
#include "security/credentials.h"

namespace strata::bench {
namespace {

constexpr double kSeconds = 86400;  // of validity

}  // namespace

BenchCertificates::BenchCertificates(const std::string& directory) : directory_(directory) {
  std::filesystem::create_directories(directory);
  const auto root = security::Authority::MakeRoot("bench", common::WallSeconds());
  STRATA_CHECK(root.ok());
  authority_ = *security::Authority::Open(*root);
  STRATA_CHECK(security::WritePemFile(directory_ + "/root.pem", authority_->root(), 0600).ok());
}

security::TlsFiles BenchCertificates::FilesOf(const std::string& path) {
  const std::string name = directory_ + "/" + path.substr(path.find('/') + 1);
  const security::TlsFiles files = {name + ".pem", name + ".key", directory_ + "/root.pem"};
  if (std::filesystem::exists(files.key)) return files;
  const auto pair = authority_->Issue(path, common::WallSeconds(), kSeconds);
  STRATA_CHECK(pair.ok());
  STRATA_CHECK(security::WritePemFile(files.certificate, pair->certificate, 0600).ok());
  STRATA_CHECK(security::WritePemFile(files.key, pair->private_key, 0600).ok());
  return files;
}

std::shared_ptr<grpc::ChannelCredentials> BenchCertificates::CredentialsOf(
    const std::string& path) {
  auto credentials = security::MakeChannelCredentials(FilesOf(path), common::WallSeconds());
  STRATA_CHECK(credentials.ok());
  return *std::move(credentials);
}

}  // namespace strata::bench
