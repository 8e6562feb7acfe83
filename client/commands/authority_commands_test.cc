// authority init and certificate issue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "client/commands/command_test_support.h"
#include "common/clock.h"
#include "security/authority.h"
#include "security/tls_files.h"

namespace strata::client {
namespace {

using security::ReadTlsFiles;
using security::Side;
using testing::HasSubstr;

class AuthorityCommandsTest : public testing::Test {
 protected:
  AuthorityCommandsTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~AuthorityCommandsTest() override { std::filesystem::remove_all(folder_); }

  Outcome Init() {
    return RunTyped({"authority", "init", folder_ + "/ca", "--cluster", "prod", "-o", "json"});
  }
  Outcome Issue(const std::string& who, const std::vector<std::string>& more = {}) {
    std::vector<std::string> typed = {
        "certificate", "issue", who, "--authority", folder_ + "/ca", "--out", folder_ + "/made"};
    typed.insert(typed.end(), more.begin(), more.end());
    return RunTyped(typed);
  }
  absl::StatusOr<security::TlsMaterial> Read(const std::string& prefix, Side side) const {
    return ReadTlsFiles({prefix + ".pem", prefix + ".key", folder_ + "/ca/root.pem"}, side,
                        common::WallSeconds());
  }

  const std::string folder_ = testing::TempDir() + "authority-commands";
};

TEST_F(AuthorityCommandsTest, InitMakesARootAndAControllersCertificate) {
  const Outcome made = Init();
  ASSERT_EQ(made.code, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  EXPECT_EQ(json["cluster"], "prod");
  EXPECT_THAT(std::string(json["authority_digest"]), testing::MatchesRegex("sha256:[0-9a-f]{64}"));
  const auto controller = Read(folder_ + "/ca/controller", Side::kServer);
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_EQ(controller->own.id.ToString(), "spiffe://prod/controller");
  for (const char* key : {"/ca/root.key", "/ca/controller.key"}) {
    struct stat info = {};
    ASSERT_EQ(stat((folder_ + key).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << key;
  }
  const Outcome again = Init();
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("root.pem: is there already"));
}

TEST_F(AuthorityCommandsTest, CertificatesAreOfWhomWasAskedFor) {
  ASSERT_EQ(Init().code, 0);
  const Outcome alice = Issue("users/alice", {"--ttl", "2h", "-o", "json"});
  ASSERT_EQ(alice.code, 0) << alice.err;
  EXPECT_EQ(nlohmann::json::parse(alice.out)["certificate"], folder_ + "/made.pem");
  const auto read = Read(folder_ + "/made", Side::kClient);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->own.id.ToString(), "spiffe://prod/user/alice");
  EXPECT_NEAR(read->own.end, common::WallSeconds() + 7200, 600);
  EXPECT_THAT(Issue("nodes/n0").err, HasSubstr("made.pem: is there already"));
  EXPECT_EQ(Issue("nodes/n0", {"--replace"}).code, 0);
  EXPECT_EQ(Read(folder_ + "/made", Side::kClient)->own.id.path, "node/n0");
}

TEST_F(AuthorityCommandsTest, KeysMayStayWhereTheyWereMade) {
  ASSERT_EQ(Init().code, 0);
  const std::string key = *security::MakePrivateKey();
  std::ofstream(folder_ + "/alice.csr") << *security::MakeSigningRequest(key);
  const Outcome issued = Issue("users/alice", {"--request", folder_ + "/alice.csr"});
  ASSERT_EQ(issued.code, 0) << issued.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/made.key"));
  std::ofstream(folder_ + "/made.key") << key;
  EXPECT_TRUE(Read(folder_ + "/made", Side::kClient).ok());
}

TEST_F(AuthorityCommandsTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(Issue("users/alice").err, HasSubstr("/ca/root.pem: No such file"));
  ASSERT_EQ(Init().code, 0);
  for (const std::string who :
       {"alice", "users/", "users/a/b", "users/a b", "jobs/a", "users/../controller"}) {
    const Outcome refused = Issue(who);
    EXPECT_EQ(refused.code, 2) << who;
    EXPECT_THAT(refused.err, HasSubstr("nobody's name")) << who;
  }
  for (const char* ttl : {"", "x", "-1h", "0s"}) {
    EXPECT_EQ(Issue("users/alice", {"--ttl", ttl}).code, 2) << ttl;
  }
  EXPECT_EQ(RunTyped({"authority", "make", "x", "--cluster", "prod"}).code, 2);
  EXPECT_EQ(RunTyped({"authority", "init", folder_ + "/b", "--cluster", "A b"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/b"));
}

}  // namespace
}  // namespace strata::client
