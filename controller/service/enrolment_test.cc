// Nodes that enrol, over TLS, with a real controller; and who may do what with which certificate.
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/strata/v1/access.grpc.pb.h"
#include "security/authority.h"
#include "security/certificate.h"
#include "security/credentials.h"
#include "security/tls_files.h"

namespace strata::controller {
namespace {

using security::Authority;
using security::KeyPair;
using security::WritePemFile;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kDay = 86400;

class EnrolmentTest : public testing::Test {
 protected:
  EnrolmentTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const KeyPair root = *Authority::MakeRoot("prod", common::WallSeconds());
    authority_ = *Authority::Open(root);
    const KeyPair own = *authority_->Issue("controller", common::WallSeconds(), kDay);
    Controller::Options options;
    options.tls = {Keep("own.pem", own.certificate), Keep("own.key", own.private_key),
                   Keep("authority.pem", root.certificate)};
    options.authority_key = Keep("authority.key", root.private_key);
    options.standing_admins = {"users/alice"};
    running_ = std::make_unique<RunningController>("", options);
    alice_ = As("user/alice");
  }
  ~EnrolmentTest() override { std::filesystem::remove_all(folder_); }

  using Access = v1::AccessService::Stub;

  std::string Keep(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(WritePemFile(path, text, 0600).ok());
    return path;
  }
  std::shared_ptr<grpc::Channel> Channel(std::shared_ptr<grpc::ChannelCredentials> credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(running_->controller().address(), credentials, arguments);
  }
  std::shared_ptr<grpc::Channel> ChannelOf(const std::string& certificate, const std::string& key) {
    const security::TlsFiles files = {Keep("client.pem", certificate), Keep("client.key", key),
                                      Keep("client-authority.pem", authority_->root())};
    auto credentials = security::MakeChannelCredentials(files, common::WallSeconds());
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return Channel(*credentials);
  }
  std::unique_ptr<Access> As(const std::string& path) {
    const KeyPair pair = *authority_->Issue(path, common::WallSeconds(), kDay);
    return v1::AccessService::NewStub(ChannelOf(pair.certificate, pair.private_key));
  }
  // Without a certificate, but with the authority's key.
  std::unique_ptr<Access> Stranger() {
    const auto root = std::make_shared<security::PinnedRoot>();
    return v1::AccessService::NewStub(
        Channel(*security::MakePinnedCredentials(authority_->key_digest(), root)));
  }

  v1::JoinToken NewToken(const std::string& nodes, int64_t uses, double ttl = 0) {
    v1::CreateJoinTokenRequest request;
    request.set_nodes(nodes);
    request.set_uses(uses);
    if (ttl > 0) request.mutable_ttl()->set_seconds(static_cast<int64_t>(ttl));
    v1::JoinToken token;
    Deadline context;
    const grpc::Status status = alice_->CreateJoinToken(&context, request, &token);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return token;
  }
  static grpc::Status Enrol(Access& access, const std::string& node, const std::string& token,
                            const std::string& key, v1::EnrollNodeResponse* response) {
    v1::EnrollNodeRequest request;
    request.set_node(node);
    request.set_token(token);
    request.set_signing_request(*security::MakeSigningRequest(key));
    Deadline context;
    return access.EnrollNode(&context, request, response);
  }
  std::vector<v1::JoinToken> Tokens() {
    v1::ListJoinTokensResponse listed;
    Deadline context;
    EXPECT_TRUE(alice_->ListJoinTokens(&context, {}, &listed).ok());
    return {listed.tokens().begin(), listed.tokens().end()};
  }

  const std::string folder_ = testing::TempDir() + "/enrolment";
  std::unique_ptr<Authority> authority_;
  std::unique_ptr<RunningController> running_;
  std::unique_ptr<Access> alice_;
};

TEST_F(EnrolmentTest, ATokenMakesAStrangerANodeAndANodeRenewsItself) {
  const v1::JoinToken token = NewToken("n*", 1);
  EXPECT_EQ(token.authority_digest(), authority_->key_digest());
  EXPECT_EQ(token.creator(), "users/alice");
  const std::string key = *security::MakePrivateKey();
  v1::EnrollNodeResponse enrolled;
  const grpc::Status status = Enrol(*Stranger(), "n0", token.token(), key, &enrolled);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(enrolled.authority(), authority_->root());
  const auto view = security::VerifyChain(enrolled.certificate(), authority_->root(),
                                          security::Side::kClient, common::WallSeconds());
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->id.ToString(), "spiffe://prod/node/n0");
  EXPECT_NEAR(view->end, common::WallSeconds() + kDay, 600);

  const auto channel = ChannelOf(enrolled.certificate(), key);
  const auto node = v1::AccessService::NewStub(channel);
  v1::Identity identity;
  Deadline asking;
  ASSERT_TRUE(node->GetIdentity(&asking, {}, &identity).ok());
  EXPECT_EQ(identity.identity(), "nodes/n0");
  // Not before it is one of the cluster's nodes, and for itself alone.
  EXPECT_EQ(ReasonOf(Enrol(*node, "n0", "", key, &enrolled)), "NODE_REMOVED");
  grpc::ClientContext session;
  const auto stream = v1::AgentService::NewStub(channel)->Session(&session);
  v1::AgentMessage hello;
  hello.set_incarnation(1);
  hello.mutable_register_()->set_node("n0");
  hello.mutable_register_()->set_device("cpu");
  hello.mutable_register_()->set_devices(1);
  ASSERT_TRUE(stream->Write(hello));
  v1::ControllerMessage welcome;
  ASSERT_TRUE(stream->Read(&welcome));
  EXPECT_TRUE(welcome.has_welcome());
  const grpc::Status renewed = Enrol(*node, "n0", "", key, &enrolled);
  EXPECT_TRUE(renewed.ok()) << renewed.error_message();
  // Another token does not put a stranger in its place.
  const std::string more = NewToken("n*", 5).token();
  EXPECT_EQ(ReasonOf(Enrol(*Stranger(), "n0", more, *security::MakePrivateKey(), &enrolled)),
            "NODE_EXISTS");
  EXPECT_EQ(ReasonOf(Enrol(*node, "n1", "", key, &enrolled)), "ROLE_REQUIRED");
  EXPECT_EQ(ReasonOf(Enrol(*Stranger(), "n0", "", key, &enrolled)), "IDENTITY_REQUIRED");
  session.TryCancel();
}

TEST_F(EnrolmentTest, TokensThatAreUsedUpOrOverOrForOthersEnrolNobody) {
  const auto stranger = Stranger();
  const std::string key = *security::MakePrivateKey();
  v1::EnrollNodeResponse enrolled;
  const std::string once = NewToken("n[0-7]", 1).token();
  const grpc::Status other = Enrol(*stranger, "m0", once, key, &enrolled);
  EXPECT_EQ(other.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(other.error_message(), HasSubstr("is for nodes n[0-7], not for m0"));
  ASSERT_TRUE(Enrol(*stranger, "n0", once, key, &enrolled).ok());
  ASSERT_TRUE(Enrol(*stranger, "n0", once, key, &enrolled).ok());  // the answer was lost
  EXPECT_THAT(Tokens(), SizeIs(1));
  EXPECT_EQ(Tokens()[0].uses_left(), 0);
  EXPECT_THAT(Enrol(*stranger, "n1", once, key, &enrolled).error_message(), HasSubstr("used up"));

  const std::string brief = NewToken("*", 5, /*ttl=*/1).token();
  grpc::Status status;
  while ((status = Enrol(*stranger, "n2", brief, key, &enrolled)).ok()) {
  }
  EXPECT_THAT(status.error_message(), HasSubstr(" is over"));

  const v1::JoinToken removed = NewToken("*", 5);
  v1::DeleteJoinTokenRequest request;
  request.set_name(removed.name());
  v1::DeleteJoinTokenResponse nothing;
  Deadline deleting;
  ASSERT_TRUE(alice_->DeleteJoinToken(&deleting, request, &nothing).ok());
  EXPECT_THAT(Enrol(*stranger, "n3", removed.token(), key, &enrolled).error_message(),
              HasSubstr("the join token is unknown"));
  for (const char* bad : {"x", ".", "x.y"}) {
    EXPECT_EQ(ReasonOf(Enrol(*stranger, "n3", bad, key, &enrolled)), "TOKEN_REFUSED") << bad;
  }
}

TEST_F(EnrolmentTest, SecretsAreShownOnceAndKeptAsDigests) {
  const v1::JoinToken token = NewToken("n*", 3);
  const std::string secret = token.token().substr(token.token().find('.') + 1);
  EXPECT_THAT(secret, SizeIs(32));
  ASSERT_THAT(Tokens(), SizeIs(1));
  EXPECT_THAT(Tokens()[0].token(), IsEmpty());
  const auto records = running_->store().Load();
  ASSERT_TRUE(records.ok());
  for (const Write& write : *records) {
    EXPECT_THAT(write.value, testing::Not(HasSubstr(secret)));
  }
}

TEST_F(EnrolmentTest, WhoHasNoCertificateMayEnrolAndNothingElse) {
  const auto stranger = Stranger();
  v1::JoinToken token;
  v1::CreateJoinTokenRequest request;
  request.set_nodes("*");
  Deadline creating;
  EXPECT_EQ(stranger->CreateJoinToken(&creating, request, &token).error_code(),
            grpc::UNAUTHENTICATED);
  const auto root = std::make_shared<security::PinnedRoot>();
  const auto jobs = v1::JobService::NewStub(
      Channel(*security::MakePinnedCredentials(authority_->key_digest(), root)));
  Deadline listing;
  v1::ListJobsResponse listed;
  EXPECT_EQ(jobs->ListJobs(&listing, {}, &listed).error_code(), grpc::UNAUTHENTICATED);
  // Nor may a node or another user make tokens.
  for (const char* path : {"node/n0", "user/bob"}) {
    Deadline context;
    EXPECT_EQ(As(path)->CreateJoinToken(&context, request, &token).error_code(),
              grpc::PERMISSION_DENIED)
        << path;
  }
}

TEST_F(EnrolmentTest, BadRequestsCostNoUse) {
  const v1::JoinToken token = NewToken("*", 1);
  v1::EnrollNodeRequest request;
  request.set_node("n0");
  request.set_token(token.token());
  request.set_signing_request("nonsense");
  v1::EnrollNodeResponse enrolled;
  Deadline context;
  EXPECT_EQ(Stranger()->EnrollNode(&context, request, &enrolled).error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Tokens()[0].uses_left(), 1);
  for (const auto& [nodes, ttl, uses] :
       {std::tuple("", 1, 1), std::tuple("a b", 1, 1), std::tuple("*", -1, 1),
        std::tuple("*", 8 * 86400, 1), std::tuple("*", 1, -1)}) {
    v1::CreateJoinTokenRequest bad;
    bad.set_nodes(nodes);
    bad.mutable_ttl()->set_seconds(ttl);
    bad.set_uses(uses);
    v1::JoinToken made;
    Deadline creating;
    EXPECT_EQ(alice_->CreateJoinToken(&creating, bad, &made).error_code(), grpc::INVALID_ARGUMENT)
        << nodes << ttl << uses;
  }
}

TEST(EnrolmentWithoutAnAuthority, IsRefused) {
  RunningController plain;
  const auto access = v1::AccessService::NewStub(plain.channel());
  v1::CreateJoinTokenRequest request;
  request.set_nodes("*");
  v1::JoinToken token;
  Deadline context;
  EXPECT_EQ(ReasonOf(access->CreateJoinToken(&context, request, &token)), "NO_AUTHORITY");
}

}  // namespace
}  // namespace strata::controller
