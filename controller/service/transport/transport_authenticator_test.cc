// Real connections to a real server, which answers every call with who makes it.
#include "controller/service/transport/transport_authenticator.h"

#include <munge.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/service/transport/acceptor.h"
#include "controller/service/transport/peer_user.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "gtest/gtest.h"
#include "security/authority.h"
#include "security/credentials.h"
#include "security/munge.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using security::Authority;
using testing::HasSubstr;
using Connections = grpc::experimental::ExternalConnectionAcceptor;

constexpr double kHour = 3600;

// Ends each call with the caller's name as its message, or with the refusal.
class WhoAmI final : public grpc::CallbackGenericService {
 public:
  explicit WhoAmI(Authenticator* authenticator) : authenticator_(authenticator) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    struct Reactor final : grpc::ServerGenericBidiReactor {
      void OnDone() override { delete this; }
    };
    auto* const reactor = new Reactor;
    authenticator_->Authenticate(*context, [reactor](absl::StatusOr<Identity> who) {
      const std::string text =
          who.ok() ? who->ToString() + " by " + who->by : std::string(who.status().message());
      reactor->Finish(grpc::Status(
          who.ok() ? grpc::StatusCode::ABORTED : grpc::StatusCode::UNAUTHENTICATED, text));
    });
    return reactor;
  }

 private:
  Authenticator* const authenticator_;
};

std::unique_ptr<Authority> MakeAuthority(const std::string& cluster = "prod") {
  return *Authority::Open(*Authority::MakeRoot(cluster, common::WallSeconds()));
}

// Of a client that shows what it likes and believes everybody.
std::shared_ptr<grpc::ChannelCredentials> Reckless(const security::KeyPair& own) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
          own.certificate, std::vector<grpc::experimental::IdentityKeyCertPair>{
                               {own.private_key, own.certificate}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

// What the call ended with: the server's answer, or why there is no connection.
std::string Ask(const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials,
                bool wait = true, const std::string& authorization = "") {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(address, credentials, arguments));
  grpc::ClientContext context;
  context.set_wait_for_ready(wait);
  if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  grpc::CompletionQueue queue;
  const grpc::Slice nothing("");
  auto call = stub.PrepareUnaryCall(&context, "/any/Method", grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return security::TlsReason(status.error_message());
}

// A daemon with a key of its own, once it was started.
struct MungeDaemon {
  ~MungeDaemon() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  void Start(const std::string& folder) {
    std::ofstream(folder + "/key") << std::string(64, 'k');
    ASSERT_EQ(chmod((folder + "/key").c_str(), 0600), 0);
    std::vector<std::string> words = {"munged", "--foreground", "--force"};
    for (const char* file : {"key-file", "socket", "pid-file", "log-file", "seed-file"}) {
      words.push_back(absl::StrCat("--", file, "=", folder, "/",
                                   file == std::string("key-file") ? "key" : file));
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&pid, "/usr/sbin/munged", nullptr, nullptr, argv.data(), environ), 0);
    socket = folder + "/socket";
    while (!security::MungeEncode(socket).ok()) {
      ASSERT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "munged has ended";
    }
  }
  std::string Credential() const { return "munge " + *security::MungeEncode(socket); }

  std::string socket;
  pid_t pid = -1;
};

// One server with plain connections, Unix sockets among them, and TLS.
class TransportAuthenticatorTest : public testing::Test {
 protected:
  TransportAuthenticatorTest() : relay_(*UnixRelay::Start()), authority_(MakeAuthority()) {
    std::string folder = "/tmp/strata-test-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    own_ = {folder_ + "/own.pem", folder_ + "/own.key", folder_ + "/authority.pem"};
    Keep(own_, *authority_, "controller");
  }
  ~TransportAuthenticatorTest() override {
    acceptors_.clear();
    if (server_ != nullptr) server_->Shutdown();
    fs::remove_all(folder_);
  }

  void Start() {
    TransportAuthenticator::Options options;
    options.relay = relay_.get();
    options.certificates = std::make_unique<CertificateIdentities>(own_.authority, "prod");
    if (munge_.socket != "") options.munge = std::make_unique<MungeDecoder>(munge_.socket);
    authenticator_ = std::make_unique<TransportAuthenticator>(std::move(options));
    service_ = std::make_unique<WhoAmI>(authenticator_.get());
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(service_.get());
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    plain_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, grpc::InsecureServerCredentials());
    tls_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, security::MakeServerCredentials(own_));
    server_ = builder.BuildAndStart();
  }

  std::string Listen(const std::string& text, bool tls = false) {
    if (server_ == nullptr) Start();
    auto acceptor = Acceptor::Listen(*ParseListenAddress(text));
    EXPECT_TRUE(acceptor.ok()) << acceptor.status();
    acceptors_.push_back(*std::move(acceptor));
    Acceptor& listening = *acceptors_.back();
    const bool is_unix = listening.address().is_unix();
    Connections& to = tls ? *tls_ : *plain_;
    listening.Begin([this, is_unix, &to](int file) {
      if (is_unix) file = *relay_->Add(file, *PeerUser(file));
      Connections::NewConnectionParameters taken;
      taken.fd = file;
      to.HandleNewConnection(&taken);
    });
    return listening.address().ToString();
  }

  static void Keep(const security::TlsFiles& files, const Authority& authority,
                   const std::string& path) {
    const security::KeyPair own = *authority.Issue(path, common::WallSeconds(), kHour);
    ASSERT_TRUE(security::WritePemFile(files.key, own.private_key, 0600).ok());
    ASSERT_TRUE(security::WritePemFile(files.certificate, own.certificate, 0644).ok());
    ASSERT_TRUE(security::WritePemFile(files.authority, authority.root(), 0644).ok());
  }
  // As Strata's own clients come.
  std::shared_ptr<grpc::ChannelCredentials> As(const std::string& path,
                                               const Authority& authority) {
    const security::TlsFiles files = {folder_ + "/client.pem", folder_ + "/client.key",
                                      folder_ + "/client-authority.pem"};
    Keep(files, authority, path);
    auto credentials = security::MakeChannelCredentials(files, common::WallSeconds());
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return *credentials;
  }

  const std::unique_ptr<UnixRelay> relay_;
  MungeDaemon munge_;
  std::unique_ptr<Authority> authority_;
  std::string folder_;
  security::TlsFiles own_;
  std::unique_ptr<TransportAuthenticator> authenticator_;
  std::unique_ptr<WhoAmI> service_;
  std::unique_ptr<Connections> plain_;
  std::unique_ptr<Connections> tls_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

TEST_F(TransportAuthenticatorTest, CallersOverUnixSocketsAreTheirUsers) {
  const std::string address = Listen("unix:" + folder_ + "/a.sock");
  const Identity self = UserOfUid(geteuid(), getegid(), "unix");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(address, grpc::InsecureChannelCredentials()), self.ToString() + " by unix");
  }
}

TEST_F(TransportAuthenticatorTest, CallersOverPlainConnectionsAreNobody) {
  EXPECT_EQ(Ask(Listen("127.0.0.1:0"), grpc::InsecureChannelCredentials()), " by none");
}

TEST_F(TransportAuthenticatorTest, CallersWithACertificateAreWhomItNames) {
  const std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  EXPECT_EQ(Ask(address, As("user/alice", *authority_)), "users/alice by tls");
  EXPECT_EQ(Ask(address, As("node/n0", *authority_)), "nodes/n0 by tls");
  EXPECT_EQ(Ask(address, As("controller", *authority_)), "controller by tls");
  security::TlsFiles anonymous;
  anonymous.authority = own_.authority;
  EXPECT_EQ(Ask(address, *security::MakeChannelCredentials(anonymous, common::WallSeconds())),
            " by tls");
}

TEST_F(TransportAuthenticatorTest, OtherCertificatesAreRefusedWithTheReason) {
  const std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  const double now = common::WallSeconds();
  EXPECT_THAT(Ask(address, Reckless(*authority_->Issue("user/alice", now - 9 * kHour, kHour))),
              HasSubstr("the certificate of spiffe://prod/user/alice expired at"));
  EXPECT_THAT(Ask(address, Reckless(*authority_->Issue("user/alice", now + 9 * kHour, kHour))),
              HasSubstr("is a clock wrong?"));
  EXPECT_THAT(Ask(address, Reckless(*MakeAuthority()->Issue("user/alice", now, kHour))),
              HasSubstr("is not from this cluster's authority"));
  EXPECT_THAT(Ask(address, Reckless(*authority_->Issue("robot/r2", now, kHour))),
              HasSubstr("robot/r2 is nobody's name"));
  EXPECT_THAT(Ask(address, Reckless(*authority_->Issue("user/a/b", now, kHour))),
              HasSubstr("is nobody's name"));
  // Of another cluster, whose authority is believed too.
  const auto other = MakeAuthority("lab");
  ASSERT_TRUE(
      security::WritePemFile(own_.authority, authority_->root() + other->root(), 0644).ok());
  const auto bob = Reckless(*other->Issue("user/bob", now, kHour));
  std::string said = Ask(address, bob);
  while (said.find("not from this cluster's") != said.npos) said = Ask(address, bob);  // till read
  EXPECT_THAT(said, HasSubstr("spiffe://lab/user/bob is of another cluster than prod"));
}

TEST_F(TransportAuthenticatorTest, ImpostorsOfTheControllerAreNotHeard) {
  const auto foreign = MakeAuthority();
  Keep(own_, *foreign, "controller");
  std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  EXPECT_THAT(Ask(address, As("node/n0", *authority_), false),
              HasSubstr("spiffe://prod/controller is not from this cluster's authority"));
  const auto lab = MakeAuthority("lab");
  const security::TlsFiles both = {folder_ + "/n.pem", folder_ + "/n.key", folder_ + "/both.pem"};
  Keep(both, *lab, "node/n0");
  ASSERT_TRUE(security::WritePemFile(both.authority, lab->root() + foreign->root(), 0644).ok());
  EXPECT_THAT(Ask(address, *security::MakeChannelCredentials(both, common::WallSeconds()), false),
              HasSubstr("the server is the controller of cluster prod, not of lab"));
  EXPECT_THAT(Ask(Listen("127.0.0.1:0"), As("node/n0", *authority_), false),
              HasSubstr("does not speak TLS"));
}

TEST_F(TransportAuthenticatorTest, ANodesCertificateDoesNotServe) {
  Keep(own_, *authority_, "node/n0");
  const std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  EXPECT_THAT(Ask(address, As("node/n1", *authority_), false),
              HasSubstr("spiffe://prod/node/n0 is not accepted"));
}

TEST_F(TransportAuthenticatorTest, MungeCredentialsNameTheirUserOnce) {
  munge_.Start(folder_);
  const std::string self = UserOfUid(geteuid(), getegid(), "munge").ToString() + " by munge";
  const std::string tls = Listen("127.0.0.1:0", /*tls=*/true);
  const std::string plain = Listen("127.0.0.1:0");
  security::TlsFiles anonymous;
  anonymous.authority = own_.authority;
  const auto nobody = *security::MakeChannelCredentials(anonymous, common::WallSeconds());
  const auto insecure = grpc::InsecureChannelCredentials();
  EXPECT_EQ(Ask(tls, nobody, true, munge_.Credential()), self);
  EXPECT_EQ(Ask(plain, insecure, true, munge_.Credential()), self);
  EXPECT_EQ(Ask(tls, nobody), " by tls");
  EXPECT_EQ(Ask(plain, insecure), " by munge");  // it must show one
  // A certificate is enough, and no credential makes up for a bad one.
  EXPECT_EQ(Ask(tls, As("user/alice", *authority_), true, munge_.Credential()),
            "users/alice by tls");
  const std::string twice = munge_.Credential();
  EXPECT_EQ(Ask(tls, nobody, true, twice), self);
  EXPECT_THAT(Ask(tls, nobody, true, twice), HasSubstr("Replayed"));
  EXPECT_THAT(Ask(tls, nobody, true, "munge MUNGE:nonsense:"), HasSubstr("MUNGE: "));
  EXPECT_THAT(Ask(tls, nobody, true, "Bearer x"), HasSubstr("only `munge CREDENTIAL`"));
}

TEST_F(TransportAuthenticatorTest, MungeCredentialsForOthersAndOfOtherKeysAreRefused) {
  munge_.Start(folder_);
  const std::string address = Listen("127.0.0.1:0");
  const auto insecure = grpc::InsecureChannelCredentials();
  char* other = nullptr;
  munge_ctx_t context = munge_ctx_create();
  munge_ctx_set(context, MUNGE_OPT_SOCKET, munge_.socket.c_str());
  ASSERT_EQ(munge_encode(&other, context, "x", 1), EMUNGE_SUCCESS);
  EXPECT_THAT(Ask(address, insecure, true, std::string("munge ") + other),
              HasSubstr("for another service"));
  munge_ctx_destroy(context);
  free(other);
  const std::string before = munge_.Credential();
  kill(munge_.pid, SIGKILL);
  waitpid(munge_.pid, nullptr, 0);
  munge_.pid = -1;
  EXPECT_THAT(Ask(address, insecure, true, before), HasSubstr("MUNGE: "));  // nobody can tell
}

TEST_F(TransportAuthenticatorTest, RenewedFilesAreTakenOverWithoutARestart) {
  const std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  EXPECT_EQ(Ask(address, As("user/alice", *authority_)), "users/alice by tls");
  const auto next = MakeAuthority();
  Keep(own_, *next, "controller");
  const auto alice = As("user/alice", *next);
  // Between the old files and the new ones it may also have one of each.
  while (Ask(address, alice, false) != "users/alice by tls") {
  }
}

TEST_F(TransportAuthenticatorTest, AClusterIsFoundByItsAuthoritysKeyAlone) {
  const std::string address = Listen("127.0.0.1:0", /*tls=*/true);
  const auto root = std::make_shared<security::PinnedRoot>();
  EXPECT_EQ(Ask(address, *security::MakePinnedCredentials(authority_->key_digest(), root)),
            " by tls");
  EXPECT_EQ(root->Get(), authority_->root());
  const auto none = std::make_shared<security::PinnedRoot>();
  EXPECT_THAT(
      Ask(address, *security::MakePinnedCredentials(MakeAuthority()->key_digest(), none), false),
      HasSubstr("is not the one of sha256:"));
  EXPECT_EQ(none->Get(), "");
}

}  // namespace
}  // namespace strata::controller
