// The daemon's metrics over TLS, as OpenSSL's client reads them.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/daemon_testing.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/strata/v1/cluster.grpc.pb.h"
#include "security/authority.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A controller whose page is served with TLS to readers with a certificate of `authority_`.
class TlsPageTest : public DaemonTest {
 protected:
  TlsPageTest() : authority_(MakeAuthority("prod")) {
    Write("root.pem", authority_->root());
    Issue(*authority_, "controller", "page");
    process_ = Start("a", "127.0.0.1:0", /*files=*/0,
                     {"--metrics-tls-certificate", folder_ + "/page.pem", "--metrics-tls-key",
                      folder_ + "/page.key", "--metrics-tls-authority", folder_ + "/root.pem"});
    ApplyRoles();
  }
  static std::unique_ptr<security::Authority> MakeAuthority(const std::string& cluster) {
    return *security::Authority::Open(
        *security::Authority::MakeRoot(cluster, common::WallSeconds()));
  }
  // In place of what there was, at once.
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/new") << text;
    fs::rename(folder_ + "/new", folder_ + "/" + name);
  }
  std::string Issue(const security::Authority& authority, const std::string& path,
                    const std::string& name) {
    const security::KeyPair made = *authority.Issue(path, common::WallSeconds(), 3600);
    Write(name + ".pem", made.certificate);
    Write(name + ".key", made.private_key);
    return made.certificate;
  }
  void ApplyRoles() {
    v1::ApplyPolicyRequest request;
    const auto bind = [&](const char* role, const char* member) {
      v1::RoleBinding& binding = *request.mutable_policy()->add_roles();
      binding.set_role(role);
      binding.add_members(member);
    };
    bind("metrics", "users/mona");
    bind("metrics", "users/eve");
    bind("viewer", "users/vic");
    request.mutable_policy()->add_revoked("users/eve");
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ApplyPolicyResponse response;
    const grpc::Status status =
        v1::ClusterService::NewStub(
            grpc::CreateChannel(process_.address, grpc::InsecureChannelCredentials()))
            ->ApplyPolicy(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  // What OpenSSL's client is answered, which believes `root.pem`; `as`: whose certificate it shows.
  std::string Get(const std::string& as, const std::string& option = "") {
    const std::string request = folder_ + "/request", output = folder_ + "/answer";
    std::ofstream(request) << "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    std::vector<std::string> words = {"openssl",
                                      "s_client",
                                      "-connect",
                                      process_.metrics,
                                      "-CAfile",
                                      folder_ + "/root.pem",
                                      "-verify_return_error",
                                      "-ign_eof"};
    if (!option.empty()) words.push_back(option);
    if (!as.empty()) {
      words.insert(words.end(),
                   {"-cert", folder_ + "/" + as + ".pem", "-key", folder_ + "/" + as + ".key"});
    }
    waitpid(SpawnProgram(words, output, request), nullptr, 0);
    return ReadFile(output);
  }

  const std::unique_ptr<security::Authority> authority_;
  Process process_;
};

TEST_F(TlsPageTest, IsReadByWhomItsRolesAllowAndRefusedToOthersOnRecord) {
  for (const char* user : {"mona", "vic", "eve"}) {
    Issue(*authority_, std::string("user/") + user, user);
  }
  Issue(*authority_, "node/n0", "node");
  Issue(*MakeAuthority("prod"), "user/mona", "stranger");
  const std::string page = Get("mona");
  EXPECT_THAT(page, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(page, HasSubstr("strata_jobs"));
  EXPECT_THAT(Get("mona", "-tls1_2"), HasSubstr("HTTP/1.1 200 OK"));

  const std::string nobody = Get("");
  EXPECT_THAT(nobody, testing::Not(HasSubstr("HTTP/1.1")));
  EXPECT_THAT(nobody, HasSubstr("certificate required"));
  const std::string other_role = Get("vic");
  EXPECT_THAT(other_role, HasSubstr("HTTP/1.1 403 Forbidden"));
  EXPECT_THAT(other_role, HasSubstr("users/vic may not do GET /metrics: it takes operator or admin "
                                    "or metrics, and users/vic has viewer"));
  EXPECT_THAT(Get("node"), HasSubstr("HTTP/1.1 403 Forbidden"));
  const std::string stranger = Get("stranger");
  EXPECT_THAT(stranger, HasSubstr("HTTP/1.1 401 Unauthorized"));
  EXPECT_THAT(stranger, HasSubstr("is not from this cluster's authority"));
  EXPECT_THAT(Get("eve"), HasSubstr("users/eve is revoked by the policy"));
  for (const std::string& answer : {nobody, other_role, stranger}) {
    EXPECT_THAT(answer, testing::Not(HasSubstr("strata_jobs")));
  }

  EXPECT_EQ(End(process_, SIGTERM), 0);
  const std::string said = ReadFile(folder_ + "/a.output");
  EXPECT_THAT(said, HasSubstr("metrics on https://" + process_.metrics + "/metrics"));
  std::istringstream lines(said);
  int on_record = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || record["method"] != "GET /metrics") continue;
    on_record += record["identity"] == "users/vic" && record["outcome"] == "PERMISSION_DENIED";
    EXPECT_NE(record["outcome"], "OK");
  }
  EXPECT_EQ(on_record, 1);
}

TEST_F(TlsPageTest, RenewedFilesAreTakenUpAndThoseThatDoNotBelongTogetherAreNot) {
  Issue(*authority_, "user/mona", "mona");
  EXPECT_THAT(Get("mona"), HasSubstr("200 OK"));
  // As OpenSSL's client prints the server's own.
  const auto shown = [](const std::string& certificate) {
    return certificate.substr(0, certificate.find("-----END"));
  };
  const std::string renewed = Issue(*authority_, "controller", "page");
  while (Get("mona").find(shown(renewed)) == std::string::npos) {
  }
  const std::string key = ReadFile(folder_ + "/page.key");
  Write("page.key", authority_->root());  // no key at all
  const auto seconds = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < seconds) {
    EXPECT_THAT(Get("mona"), HasSubstr("200 OK"));
  }
  Write("page.key", key);

  const auto next = MakeAuthority("prod");  // takes the first one's place
  Issue(*next, "user/mona", "mona");
  EXPECT_THAT(Get("mona"), HasSubstr("401 Unauthorized"));
  Write("root.pem", authority_->root() + next->root());
  while (Get("mona").find("200 OK") == std::string::npos) {
  }
}

TEST_F(TlsPageTest, ConnectionsThatSayNothingDoNotBlockIt) {
  Issue(*authority_, "user/mona", "mona");
  const std::vector<int> silent = Connect(process_.metrics, 100);
  for (size_t i = 0; i < silent.size(); i += 2) {
    EXPECT_GT(write(silent[i], "\x16\x03\x01", 3), 0);  // a handshake begins
  }
  EXPECT_THAT(Get("mona"), HasSubstr("200 OK"));
  for (const int file : silent) close(file);
}

TEST_F(DaemonTest, ThePagesTlsFilesAreCheckedAtTheStart) {
  const std::string none = folder_ + "/none.pem";
  const Outcome half = RunToEnd({"--dir", folder_ + "/a", "--metrics-tls-certificate", none});
  EXPECT_EQ(WEXITSTATUS(half.status), 2);
  EXPECT_THAT(half.text, HasSubstr("needs --metrics-tls-certificate and --metrics-tls-key"));
  const Outcome missing = RunToEnd({"--dir", folder_ + "/a", "--listen", "127.0.0.1:0",
                                    "--metrics-tls-certificate", none, "--metrics-tls-key", none});
  EXPECT_EQ(WEXITSTATUS(missing.status), 1);
  EXPECT_THAT(missing.text, HasSubstr(none + ": No such file or directory"));
  // Encryption alone keeps nobody out.
  const Outcome open = RunToEnd({"--dir", folder_ + "/a", "--metrics-listen", "0.0.0.0:0",
                                 "--metrics-tls-certificate", none, "--metrics-tls-key", none});
  EXPECT_EQ(WEXITSTATUS(open.status), 2);
  EXPECT_THAT(open.text, HasSubstr("--metrics-tls-authority"));
}

}  // namespace
}  // namespace strata::controller
