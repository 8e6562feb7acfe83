#include "security/tls_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "security/authority.h"
#include "security/certificate_testing.h"

namespace strata::security {
namespace {

constexpr double kHour = 3600;

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    authority_ = MakeAuthority();
    files_ = {folder_ + "/own.pem", folder_ + "/own.key", folder_ + "/authority.pem"};
    Write(files_.authority, authority_->root());
    Keep(*authority_->Issue("controller", kNow, kHour));
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<Authority> MakeAuthority() {
    return *Authority::Open(*Authority::MakeRoot("prod", kNow));
  }
  static void Write(const std::string& path, const std::string& text) {
    const absl::Status written = WritePemFile(path, text, 0600);
    ASSERT_TRUE(written.ok()) << written;
  }
  void Keep(const KeyPair& own) const {
    Write(files_.certificate, own.certificate);
    Write(files_.key, own.private_key);
  }
  std::string Problem(double now = kNow) const {
    const auto read = ReadTlsFiles(files_, Side::kServer, now);
    EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << read.status();
    return std::string(read.status().message());
  }

  const std::string folder_ = testing::TempDir() + "/tls-files";
  std::unique_ptr<Authority> authority_;
  TlsFiles files_;
};

TEST_F(TlsFilesTest, GoodOnesSayWhoseTheyAre) {
  const auto read = ReadTlsFiles(files_, Side::kServer, kNow);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->own.id.ToString(), "spiffe://prod/controller");
  EXPECT_EQ(read->authority, authority_->root());
  TlsFiles anonymous;
  anonymous.authority = files_.authority;
  EXPECT_TRUE(anonymous.enabled());
  EXPECT_EQ(ReadTlsFiles(anonymous, Side::kClient, kNow)->own.id.path, "");
  EXPECT_FALSE(TlsFiles().enabled());
}

TEST_F(TlsFilesTest, EachProblemNamesItsFile) {
  EXPECT_THAT(Problem(kNow + 2 * kHour), testing::StartsWith(files_.certificate + ": the cert"));
  EXPECT_THAT(Problem(kNow + 2 * kHour), testing::HasSubstr("expired"));
  Write(files_.key, *MakePrivateKey());
  EXPECT_THAT(Problem(), testing::HasSubstr("is not that of the certificate (" + files_.key));
  Keep(*MakeAuthority()->Issue("controller", kNow, kHour));
  EXPECT_THAT(Problem(), testing::HasSubstr("(authority: " + files_.authority + ")"));
  Keep(*authority_->Issue("user/alice", kNow, kHour));
  EXPECT_THAT(Problem(), testing::HasSubstr("not accepted"));  // a user's does not serve
  std::filesystem::remove(files_.key);
  EXPECT_EQ(Problem(), files_.key + ": No such file or directory");
  files_.key.clear();
  EXPECT_EQ(Problem(), files_.certificate + ": its private key is not given");
  Write(files_.authority, "nothing");
  EXPECT_THAT(Problem(), testing::HasSubstr(files_.authority + ": there is no certificate"));
}

TEST_F(TlsFilesTest, KeysAreTheirOwnersOnly) {
  struct stat info = {};
  ASSERT_EQ(stat(files_.key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_TRUE(absl::IsInternal(WritePemFile(folder_ + "/none/a", "", 0600)));
}

TEST_F(TlsFilesTest, PeersAreJudgedByTheAuthorityOfTheMoment) {
  PeerVerifier verifier(files_.authority, Side::kClient);
  const std::string alice = authority_->Issue("user/alice", kNow, kHour)->certificate;
  for (int i = 0; i < 2; ++i) {  // the second one is remembered
    const auto view = verifier.Verify(alice, kNow);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->id.path, "user/alice");
  }
  EXPECT_THAT(std::string(verifier.Verify(alice, kNow + 2 * kHour).status().message()),
              testing::HasSubstr("expired"));
  const auto other = MakeAuthority();
  const std::string bob = other->Issue("user/bob", kNow, kHour)->certificate;
  EXPECT_FALSE(verifier.Verify(bob, kNow).ok());
  // Both, while one takes the other's place; then the new one alone.
  Write(files_.authority, authority_->root() + other->root());
  EXPECT_TRUE(verifier.Verify(bob, kNow + 10).ok());
  EXPECT_TRUE(verifier.Verify(alice, kNow + 10).ok());
  Write(files_.authority, other->root());
  EXPECT_FALSE(verifier.Verify(alice, kNow + 20).ok());
  EXPECT_TRUE(verifier.Verify(bob, kNow + 20).ok());
  std::filesystem::remove(files_.authority);
  EXPECT_TRUE(verifier.Verify(bob, kNow + 30).ok());
}

// What was good when it was seen first is not good for as long as its own dates say.
TEST_F(TlsFilesTest, ARememberedPeerIsForgottenWhenItsAuthorityEnds) {
  const KeyPair root = *Authority::MakeRoot("prod", kNow);
  Write(files_.authority, root.certificate);
  const KeyPair brief = MakeBetween(root, kNow + kHour);
  const std::string chain =
      Custom(brief, "URI:spiffe://prod/user/bob", *MakePrivateKey()) + brief.certificate;
  PeerVerifier verifier(files_.authority, Side::kClient);
  ASSERT_TRUE(verifier.Verify(chain, kNow).ok());
  EXPECT_TRUE(verifier.Verify(chain, kNow + kHour - 1).ok());
  EXPECT_THAT(std::string(verifier.Verify(chain, kNow + kHour + 1).status().message()),
              testing::HasSubstr("expired"));
}

}  // namespace
}  // namespace strata::security
