// Real connections to a real server, which answers every call with who makes it.
#include "controller/service/transport_authenticator.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "controller/service/acceptor.h"
#include "controller/service/peer_user.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using Connections = grpc::experimental::ExternalConnectionAcceptor;

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

class TransportAuthenticatorTest : public testing::Test {
 protected:
  TransportAuthenticatorTest()
      : relay_(*UnixRelay::Start()), authenticator_(relay_.get()), service_(&authenticator_) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
  }
  ~TransportAuthenticatorTest() override {
    acceptors_.clear();
    server_->Shutdown();
  }

  std::string Listen(const std::string& text) {
    auto acceptor = Acceptor::Listen(*ParseListenAddress(text));
    EXPECT_TRUE(acceptor.ok()) << acceptor.status();
    acceptors_.push_back(*std::move(acceptor));
    Acceptor& listening = *acceptors_.back();
    const bool is_unix = listening.address().is_unix();
    listening.Begin([this, is_unix](int file) {
      if (is_unix) file = *relay_->Add(file, *PeerUser(file));
      Connections::NewConnectionParameters taken;
      taken.fd = file;
      connections_->HandleNewConnection(&taken);
    });
    return listening.address().ToString();
  }

  static std::string Ask(const std::string& address) {
    grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc::CompletionQueue queue;
    const grpc::Slice nothing("");
    auto call =
        stub.PrepareUnaryCall(&context, "/any/Method", grpc::ByteBuffer(&nothing, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status.error_message();
  }

  std::unique_ptr<UnixRelay> relay_;
  TransportAuthenticator authenticator_;
  WhoAmI service_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

TEST_F(TransportAuthenticatorTest, CallersOverUnixSocketsAreTheirUsers) {
  std::string folder = "/tmp/strata-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string address = Listen("unix:" + folder + "/a.sock");
  const Identity self = UserOfUid(geteuid(), getegid(), "unix");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask(address), self.ToString() + " by unix");
  acceptors_.clear();
  EXPECT_EQ(rmdir(folder.c_str()), -1);  // its lock stays
  unlink((folder + "/a.sock.lock").c_str());
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST_F(TransportAuthenticatorTest, CallersOverPlainConnectionsAreNobody) {
  EXPECT_EQ(Ask(Listen("127.0.0.1:0")), " by none");
}

}  // namespace
}  // namespace strata::controller
