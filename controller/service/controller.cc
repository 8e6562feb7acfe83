#include "controller/service/controller.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/metrics/metrics.h"
#include "controller/service/access_service.h"
#include "controller/service/agent_service.h"
#include "controller/service/calls/calls.h"
#include "controller/service/cluster_service.h"
#include "controller/service/files/audit_log.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/job_service.h"
#include "controller/service/metrics_page.h"
#include "controller/service/reactor/policy_view.h"
#include "controller/service/reactor/session_table.h"
#include "controller/service/store_preparation.h"
#include "controller/service/streams/log_book.h"
#include "controller/service/streams/progress_hub.h"
#include "controller/service/streams/watch_hub.h"
#include "controller/service/transport/acceptor.h"
#include "controller/service/transport/certificate_identities.h"
#include "controller/service/transport/listen_address.h"
#include "controller/service/transport/page_server.h"
#include "controller/service/transport/peer_user.h"
#include "controller/service/transport/transport_authenticator.h"
#include "controller/service/transport/unix_relay.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "security/authority.h"
#include "security/certificate.h"
#include "security/credentials.h"
#include "security/tls_files.h"
#include "security/tls_server.h"

namespace strata::controller {
namespace {

using Connections = grpc::experimental::ExternalConnectionAcceptor;

constexpr int kMessageBytes = 4 << 20;
constexpr int kMetadataBytes = 16 << 10;
constexpr int kWindowBytes = 1 << 20;  // that a client may send before it is told to go on
constexpr int kStreamsPerConnection = 256;
constexpr size_t kTransportBytes = size_t{512} << 20;
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kLeastPingIntervalMs = 5'000;
constexpr int kHandshakeMs = 5'000;  // then one that says nothing is closed
// For the last words to get through; idle connections would hold it up for as long as it may
// take.
constexpr auto kShutdown = std::chrono::milliseconds(300);
constexpr size_t kReaders = 2;       // threads for lists and such
constexpr size_t kMostReads = 1024;  // that wait for them
// New jobs are refused below this, so that what runs can still be recorded.
constexpr uint64_t kReservedBytes = uint64_t{32} << 20;

bool HasRoom(const std::string& directory) {
  struct statvfs info = {};
  if (statvfs(directory.c_str(), &info) != 0) return true;  // a commit will tell
  return uint64_t{info.f_bavail} * info.f_frsize >= kReservedBytes;
}

Reactor::Options WithRoom(Reactor::Options options, const std::string& directory, bool asks_disk) {
  if (asks_disk) options.has_room = [directory] { return HasRoom(directory); };
  return options;
}

// gRPC's library adds reflection to every server of a program that it is linked to.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const std::unique_ptr<grpc::ServerBuilderPlugin>& plugin) {
      return dynamic_cast<grpc::reflection::ProtoServerReflectionPlugin*>(plugin.get()) != nullptr;
    });
  }
};

// Tells health checks whether changes can be made durable.
class HealthReporter final : public Reactor::Listener {
 public:
  explicit HealthReporter(const Reactor* reactor) : reactor_(reactor) {}
  void set_server(grpc::Server* server) {
    service_ = server->GetHealthCheckService();
    Report(false);
  }
  void OnEffects(const Core& /*core*/, const Effects& /*effects*/) override { Refresh(); }
  void OnLoad(const Core& /*core*/) override { Refresh(); }
  void OnStop() override { Report(false); }

 private:
  void Refresh() {
    if (reactor_->ready() != serving_) Report(!serving_);
  }
  void Report(bool serving) {
    serving_ = serving;
    service_->SetServingStatus(serving);
    for (const char* name : {"strata.v1.JobService", "strata.v1.ClusterService",
                             "strata.v1.AccessService", "strata.v1.AgentService"}) {
      service_->SetServingStatus(name, serving);
    }
  }

  const Reactor* const reactor_;
  grpc::HealthCheckServiceInterface* service_ = nullptr;
  bool serving_ = false;
};

// Agents and clients hear nobody else.
absl::Status CheckIsController(const security::TlsFiles& files, const security::TlsMaterial& own) {
  if (own.own.id.path == security::kControllerPath) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      files.certificate, ": a controller's certificate is needed (URI spiffe://CLUSTER/controller)",
      own.certificate.empty() ? ""
                              : absl::StrCat(", and this is that of ", own.own.id.ToString())));
}

// That the first of these certificates names which names any; empty: none does.
std::string ClusterOf(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> pem = security::ReadPemFile(file);
    const auto view = security::ReadCertificate(pem.value_or(""));
    if (view.ok()) return view->id.cluster;
  }
  return "";
}

// Null, where this controller signs nothing.
absl::StatusOr<std::unique_ptr<security::Authority>> OpenAuthority(
    const Controller::Options& options) {
  if (options.authority_key.empty()) return nullptr;
  security::KeyPair root;
  ASSIGN_OR_RETURN(root.certificate, security::ReadPemFile(options.tls.authority));
  ASSIGN_OR_RETURN(root.private_key, security::ReadPemFile(options.authority_key));
  auto authority = security::Authority::Open(root);
  if (authority.ok()) return authority;
  return absl::Status(authority.status().code(),
                      absl::StrCat(options.authority_key, ": ", authority.status().message()));
}

class ControllerImpl final : public Controller {
 public:
  ControllerImpl(const Options& options, const common::Clock* clock, std::unique_ptr<Store> store,
                 bool asks_disk)
      : options_(options),
        clock_(clock),
        store_(std::move(store)),
        reactor_(
            store_.get(), [this] { return std::make_unique<Core>(clock_, options_.map); }, clock,
            WithRoom(options.reactor, options.directory, asks_disk)),
        metrics_(Metrics::Make(options.version, clock)),
        watches_(clock, {}),
        node_watches_(clock),
        progress_(clock, {}),
        files_(options.files),
        logs_({}, &files_),
        audit_log_(&audit_writer_, options.audit_log),
        registration_(clock, options.register_seconds),
        readers_(options.readers != nullptr ? options.readers
                                            : std::make_shared<ReadPool>(kReaders, kMostReads)),
        health_(&reactor_) {
    const std::vector<Reactor::Listener*> listeners = {
        &policy_,   metrics_.get(), &logs_,   &watches_,   &node_watches_, &progress_,
        &sessions_, &registration_, &health_, &audit_log_, &restricted_};
    for (Reactor::Listener* listener : listeners) reactor_.AddListener(listener);
  }

  ~ControllerImpl() override {
    if (server_ == nullptr) return;
    // Calls may wait already when a start fails: without their answers the server would not end.
    reactor_.Close(absl::UnavailableError("the controller is shutting down"));
    Shutdown();
  }

  absl::Status Begin();
  const std::vector<std::string>& addresses() const override { return addresses_; }
  const std::string& metrics_address() const override { return metrics_address_; }
  const Reactor& reactor() const override { return reactor_; }
  bool tells_callers_apart() const override { return authenticator_->tells_callers_apart(); }
  absl::Status Run(const std::atomic<bool>& stop) override {
    const absl::Status status = reactor_.Run(stop);
    Shutdown();
    return status;
  }

 private:
  absl::Status Listen();
  absl::Status ListenForMetrics();
  void BeginMetrics(const CallEnvironment& environment);
  absl::Status StartServer();
  // Gives the server what comes in, from now on.
  void Accept(Acceptor& acceptor, std::unique_ptr<Connections> connections);
  void Shutdown() {
    acceptors_.clear();
    server_->Shutdown(std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::duration<double>(common::WallSeconds()) + kShutdown)));
    server_->Wait();
  }

  const Options options_;
  const common::Clock* const clock_;
  const std::unique_ptr<Store> store_;
  Reactor reactor_;
  const std::unique_ptr<Metrics> metrics_;
  WatchHub watches_;
  NodeWatchHub node_watches_;
  ProgressHub progress_;
  FilePool files_;
  LogBook logs_;
  FilePool audit_writer_{{.most_threads = 1}};  // goes on when the folders of many jobs hang
  AuditLog audit_log_;
  SessionTable sessions_;
  Deadlines registration_;
  const std::shared_ptr<ReadPool> readers_;
  std::atomic<int> open_streams_{0};
  HealthReporter health_;
  std::unique_ptr<UnixRelay> relay_;  // null: no Unix sockets
  NodeSources node_sources_;
  std::shared_ptr<Authenticator> authenticator_;
  CallMeter calls_;
  RestrictedStreams restricted_;
  RefusalMeter refusals_{options_.refusals};
  PolicyView policy_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::vector<std::string> addresses_;
  std::string metrics_address_;
  std::unique_ptr<grpc::Server> server_;              // ends before what its calls use
  std::vector<std::unique_ptr<Acceptor>> acceptors_;  // give the server its connections
  std::unique_ptr<MetricsPage> metrics_page_;
  std::unique_ptr<PageServer> pages_;  // null: none
};

absl::Status ControllerImpl::Listen() {
  bool any_unix = false;
  for (const std::string& text : options_.listen) {
    ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(text));
    ASSIGN_OR_RETURN(acceptors_.emplace_back(), Acceptor::Listen(address, options_.socket_group));
    addresses_.push_back(acceptors_.back()->address().ToString());
    any_unix |= address.is_unix();
  }
  if (any_unix) {
    ASSIGN_OR_RETURN(relay_, UnixRelay::Start());
  }
  TransportAuthenticator::Options known;
  known.relay = relay_.get();
  if (options_.tls.enabled()) {
    ASSIGN_OR_RETURN(
        const security::TlsMaterial own,
        security::ReadTlsFiles(options_.tls, security::Side::kServer, common::WallSeconds()));
    RETURN_IF_ERROR(CheckIsController(options_.tls, own));
    known.certificates =
        std::make_unique<CertificateIdentities>(options_.tls.authority, own.own.id.cluster);
  }
  if (options_.munge) known.munge = std::make_unique<MungeDecoder>(options_.munge_socket);
  known.tells_callers_apart =
      std::all_of(acceptors_.begin(), acceptors_.end(), [this](const auto& acceptor) {
        return options_.tls.enabled() || options_.munge || acceptor->address().is_unix();
      });
  authenticator_ = options_.authenticator;
  if (authenticator_ == nullptr) {
    authenticator_ = std::make_shared<TransportAuthenticator>(std::move(known));
  }
  return absl::OkStatus();
}

void ControllerImpl::Accept(Acceptor& acceptor, std::unique_ptr<Connections> connections) {
  const auto hand_over = [to = std::shared_ptr<Connections>(std::move(connections))](int file) {
    Connections::NewConnectionParameters taken;
    taken.fd = file;
    to->HandleNewConnection(&taken);
  };
  const auto most = static_cast<size_t>(Acceptor::MostFiles());
  const auto places = [&](size_t connections) {
    const bool limits = authenticator_->tells_callers_apart();
    return limits ? std::make_unique<Places>(connections, &node_sources_, clock_) : nullptr;
  };
  if (!acceptor.address().is_unix()) return acceptor.Begin(hand_over, places(most));
  // Whoever may do everything there, and with whose user agents run.
  for (const uid_t uid : {uid_t{0}, geteuid()}) node_sources_.Add(absl::StrCat("uid:", uid));
  acceptor.Begin(
      [relay = relay_.get(), hand_over](int file) {
        absl::StatusOr<Identity> who = PeerUser(file);
        if (!who.ok()) {
          close(file);
          return;
        }
        const absl::StatusOr<int> inner = relay->Add(file, *std::move(who));
        if (inner.ok()) hand_over(*inner);  // else there are too many files: closed, as beyond them
      },
      places(most / UnixRelay::kFilesPerConnection));
}

absl::Status ControllerImpl::ListenForMetrics() {
  std::unique_ptr<security::TlsServer> tls;
  if (!options_.metrics_tls.certificate.empty()) {
    ASSIGN_OR_RETURN(tls, security::TlsServer::Open(options_.metrics_tls));
  }
  ASSIGN_OR_RETURN(pages_, PageServer::Listen(options_.metrics_listen, std::move(tls), clock_));
  metrics_address_ = pages_->address();
  return absl::OkStatus();
}

void ControllerImpl::BeginMetrics(const CallEnvironment& environment) {
  if (pages_ == nullptr) return;
  std::unique_ptr<CertificateIdentities> readers;
  if (options_.metrics_tls.enabled()) {
    readers = std::make_unique<CertificateIdentities>(
        options_.metrics_tls.authority,
        ClusterOf({options_.metrics_tls.certificate, options_.tls.certificate}));
  }
  metrics_page_ = std::make_unique<MetricsPage>(environment, metrics_.get(), std::move(readers));
  pages_->Begin([this](const PageRequest& request) { return metrics_page_->Answer(request); });
}

absl::Status ControllerImpl::StartServer() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  RETURN_IF_ERROR(Listen());
  ASSIGN_OR_RETURN(auto authority, OpenAuthority(options_));
  const CallEnvironment environment = {&reactor_,
                                       metrics_.get(),
                                       clock_,
                                       &open_streams_,
                                       authenticator_.get(),
                                       &options_.standing_admins,
                                       readers_.get(),
                                       &calls_,
                                       &restricted_,
                                       &refusals_,
                                       &policy_,
                                       options_.audit_records};
  BeginMetrics(environment);
  v1::Cluster about;
  about.set_version(options_.version);
  about.set_directory(options_.directory);
  about.set_metrics_address(metrics_address_);
  about.mutable_start_time()->set_seconds(static_cast<int64_t>(common::WallSeconds()));
  services_.push_back(
      MakeJobService({environment, &watches_, &progress_, &logs_, &files_, options_.directory}));
  services_.push_back(MakeClusterService(environment, about, &node_watches_, &files_));
  services_.push_back(MakeAccessService(
      environment, Enroller(std::move(authority), options_.node_certificate_seconds)));
  services_.push_back(MakeAgentService(
      {environment, &sessions_, &logs_, metrics_.get(), &registration_, &node_sources_}));

  grpc::ServerBuilder builder;
  if (!options_.reflection) builder.SetOption(std::make_unique<NoReflection>());
  std::vector<std::unique_ptr<Connections>> connections;
  for (size_t i = 0; i < acceptors_.size(); ++i) {
    connections.push_back(builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options_.tls.enabled() && !acceptors_[i]->address().is_unix()
            ? security::MakeServerCredentials(options_.tls)
            : grpc::InsecureServerCredentials()));
  }
  for (const auto& service : services_) builder.RegisterService(service.get());
  builder.SetMaxReceiveMessageSize(kMessageBytes);
  builder.SetMaxSendMessageSize(kMessageBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("controller").Resize(kTransportBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  // Else gRPC answers each agent's heartbeat with a ping, to learn how much the line carries.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(1000 * options_.idle_seconds));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("the gRPC server did not start");
  health_.set_server(server_.get());
  for (size_t i = 0; i < acceptors_.size(); ++i) Accept(*acceptors_[i], std::move(connections[i]));
  return absl::OkStatus();
}

absl::Status ControllerImpl::Begin() {
  if (!options_.metrics_listen.empty()) {
    RETURN_IF_ERROR(ListenForMetrics());
  }
  // Before loading begins a new term: a second controller on the port changes nothing.
  RETURN_IF_ERROR(StartServer());
  return reactor_.Load();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Controller>> Controller::Start(const Options& options,
                                                              const common::Clock* clock,
                                                              std::unique_ptr<Store> store) {
  const bool asks_disk = store == nullptr;
  if (store == nullptr) {
    ASSIGN_OR_RETURN(store, Store::Open(options.directory));
    RETURN_IF_ERROR(
        PrepareStore(*store, options.directory, options.preparation, common::SystemEntropy()));
  }
  auto controller = std::make_unique<ControllerImpl>(options, clock, std::move(store), asks_disk);
  RETURN_IF_ERROR(controller->Begin());
  return std::unique_ptr<Controller>(std::move(controller));
}

}  // namespace strata::controller
