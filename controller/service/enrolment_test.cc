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
    grpc::Status status;
    do {  // strangers may call so many times a second
      Deadline context;
      status = access.EnrollNode(&context, request, response);
    } while (ReasonOf(status) == "TOO_MANY_CALLS");
    return status;
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

// A node's certificate, and what it says with it.
class Joined : public EnrolmentTest {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>;

  void Join(const std::string& certificate, const std::string& key) {
    channel_ = ChannelOf(certificate, key);
    access_ = v1::AccessService::NewStub(channel_);
    agents_ = v1::AgentService::NewStub(channel_);
  }
  // n0's; welcomed, or ended.
  std::unique_ptr<Stream> Register(grpc::ClientContext* context) {
    auto stream = agents_->Session(context);
    v1::AgentMessage hello;
    hello.set_incarnation(++incarnation_);
    hello.mutable_register_()->set_node("n0");
    hello.mutable_register_()->set_device("cpu");
    hello.mutable_register_()->set_devices(1);
    stream->Write(hello);
    return stream;
  }
  bool IsWelcome(Stream& stream) {
    v1::ControllerMessage message;
    return stream.Read(&message) && message.has_welcome();
  }
  // Of what is left of it.
  static std::string EndOf(Stream& stream) {
    v1::ControllerMessage message;
    while (stream.Read(&message)) {
    }
    return ReasonOf(stream.Finish());
  }
  void Apply(const std::vector<std::string>& revoked) {
    const KeyPair pair = *authority_->Issue("user/alice", common::WallSeconds(), kDay);
    const auto cluster = v1::ClusterService::NewStub(ChannelOf(pair.certificate, pair.private_key));
    v1::ApplyPolicyRequest request;
    v1::TimingPolicy& timing = *request.mutable_policy()->mutable_timing();
    timing.set_heartbeat_seconds(0.2);
    timing.set_node_lost_seconds(0.4);
    timing.set_lease_seconds(1);
    for (const std::string& who : revoked) request.mutable_policy()->add_revoked(who);
    v1::ApplyPolicyResponse response;
    Deadline context;
    const grpc::Status status = cluster->ApplyPolicy(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  void DeleteN0() {
    const KeyPair pair = *authority_->Issue("user/alice", common::WallSeconds(), kDay);
    const auto cluster = v1::ClusterService::NewStub(ChannelOf(pair.certificate, pair.private_key));
    v1::DeleteNodeRequest request;
    request.set_name("nodes/n0");
    grpc::Status status;
    do {  // until it counts as lost
      Deadline context;
      v1::DeleteNodeResponse response;
      status = cluster->DeleteNode(&context, request, &response);
    } while (status.error_code() == grpc::FAILED_PRECONDITION);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<v1::AgentService::Stub> agents_;
  uint64_t incarnation_ = 0;
};

TEST_F(Joined, ADeletedNodesKeyOpensNothing) {
  Apply({});
  const std::string key = *security::MakePrivateKey();
  const std::string token = NewToken("n0", 1).token();
  v1::EnrollNodeResponse enrolled;
  ASSERT_TRUE(Enrol(*Stranger(), "n0", token, key, &enrolled).ok());
  Join(enrolled.certificate(), key);
  {
    Deadline context;
    const auto session = Register(&context);
    ASSERT_TRUE(IsWelcome(*session));
    EXPECT_THAT(Tokens(), IsEmpty());  // it is there: the token has done what it was for
    context.TryCancel();
    EndOf(*session);
  }
  DeleteN0();
  Deadline stolen;
  EXPECT_EQ(EndOf(*Register(&stolen)), "NODE_REMOVED");
  EXPECT_EQ(ReasonOf(Enrol(*access_, "n0", "", key, &enrolled)), "NODE_REMOVED");
  EXPECT_EQ(ReasonOf(Enrol(*Stranger(), "n0", token, key, &enrolled)), "TOKEN_REFUSED");
  v1::ListAuditRecordsRequest asked;
  asked.set_filter("method=AccessService/* outcome=OK");
  v1::ListAuditRecordsResponse audited;
  Deadline listing;
  ASSERT_TRUE(alice_->ListAuditRecords(&listing, asked, &audited).ok());
  ASSERT_EQ(audited.records_size(), 2);
  EXPECT_EQ(audited.records(0).resource(), "nodes/n0");  // EnrollNode
  EXPECT_EQ(audited.records(1).resource(), "tokens/" + token.substr(0, token.find('.')));
  EXPECT_FALSE(audited.records(1).certificate().empty());

  ASSERT_TRUE(Enrol(*Stranger(), "n0", NewToken("n0", 1).token(), key, &enrolled).ok());
  Join(enrolled.certificate(), key);
  Deadline again;
  const auto session = Register(&again);
  EXPECT_TRUE(IsWelcome(*session));
  again.TryCancel();
}

TEST_F(Joined, WhatIsRevokedEndsAtOnce) {
  const KeyPair pair = *authority_->Issue("node/n0", common::WallSeconds(), kDay);
  Join(pair.certificate, pair.private_key);
  const std::string serial = security::ReadCertificate(pair.certificate)->serial;
  for (const std::string& who : {std::string("nodes/n0"), "serial:" + serial}) {
    Deadline context;
    const auto session = Register(&context);
    ASSERT_TRUE(IsWelcome(*session));
    Apply({who});
    EXPECT_EQ(EndOf(*session), "REVOKED") << who;
    Deadline another;
    EXPECT_EQ(EndOf(*Register(&another)), "REVOKED");
    Deadline asking;
    v1::Identity identity;
    EXPECT_EQ(ReasonOf(access_->GetIdentity(&asking, {}, &identity)), "REVOKED");
    Apply({});
  }
  Apply({"serial:00"});
  Deadline context;
  EXPECT_TRUE(IsWelcome(*Register(&context)));
  context.TryCancel();
}

TEST_F(Joined, SessionsAndStreamsEndWithTheirCertificates) {
  const KeyPair node = *authority_->Issue("node/n0", common::WallSeconds(), 3);
  Join(node.certificate, node.private_key);
  Deadline context;
  const auto session = Register(&context);
  ASSERT_TRUE(IsWelcome(*session));
  const KeyPair user = *authority_->Issue("user/alice", common::WallSeconds(), 3);
  const auto jobs = v1::JobService::NewStub(ChannelOf(user.certificate, user.private_key));
  Deadline watching;
  const auto stream = jobs->WatchJobs(&watching, {});
  v1::WatchJobsResponse change;
  EXPECT_EQ(EndOf(*session), "CERTIFICATE_EXPIRED");
  while (stream->Read(&change)) {
  }
  EXPECT_EQ(ReasonOf(stream->Finish()), "CERTIFICATE_EXPIRED");
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
       {std::tuple("", 1, 1), std::tuple("a b", 1, 1), std::tuple("n[0", 1, 1),
        std::tuple("n[]", 1, 1), std::tuple("*", -1, 1), std::tuple("*", 8 * 86400, 1),
        std::tuple("*", 1, -1)}) {
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
