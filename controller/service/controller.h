// The controller, put together: store, logic, reactor, services, metrics, one gRPC server.
#ifndef STRATA_CONTROLLER_SERVICE_CONTROLLER_H_
#define STRATA_CONTROLLER_SERVICE_CONTROLLER_H_

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "controller/access/refusal_meter.h"
#include "controller/logic/core.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/reactor/read_pool.h"
#include "controller/service/store_preparation.h"
#include "controller/service/transport/authenticator.h"
#include "controller/store/store.h"
#include "security/tls_files.h"

namespace strata::controller {

class Controller {
 public:
  struct Options {
    // HOST:PORT, port 0: any; or unix:PATH. At least one.
    std::vector<std::string> listen = {"127.0.0.1:0"};
    std::string socket_group;  // that may use the Unix sockets too; empty: none
    security::TlsFiles tls;    // of HOST:PORT, when it is enabled
    // The private key (PEM file) of the first authority in tls.authority; empty: it signs nothing.
    std::string authority_key;
    double node_certificate_seconds = 86400;
    // Whether users may show MUNGE credentials, and those over plain connections must; by the
    // daemon at this socket (empty: the usual one).
    bool munge = false;
    std::string munge_socket;
    std::string metrics_listen = "127.0.0.1:0";  // empty: none
    // Of the metrics' page, when it has a certificate; with an authority whoever reads it must show
    // a certificate, and have a role for it.
    security::TlsFiles metrics_tls;
    std::string directory;  // absolute; the store, and jobs without their own
    std::string version;
    topology::Description
        map;  // levels and links of the cluster, as Core's; nodes join by themselves
    Reactor::Options reactor;
    FilePool::Options files;
    // Connections without a call end after this: their clients come again when they have one.
    double idle_seconds = 300;
    double register_seconds = 10;  // from a session's begin until its agent must have registered
    bool reflection = true;        // whether clients may ask what the services look like
    // Answers reads; null: a few threads of the controller's own.
    std::shared_ptr<ReadPool> readers;
    // Who makes a call; null: what the addresses and `tls` tell.
    std::shared_ptr<Authenticator> authenticator;
    std::vector<std::string> standing_admins;  // users/NAME, admins whatever the policy says
    size_t audit_records = 10'000;             // kept; at least 1
    RefusalMeter::Limits refusals;             // that are recorded in the audit trail
    std::FILE* audit_log = nullptr;            // where they also go, as JSON lines; null: nowhere
    StorePreparation preparation;              // of the directory's store
  };

  // Opens, loads and serves. `store`: null, or one for tests in place of the directory's. Errors
  // name the address ("in use") or the file. FailedPrecondition: also that the TLS files are no
  // controller's, or the authority's key is none.
  static absl::StatusOr<std::unique_ptr<Controller>> Start(const Options& options,
                                                           const common::Clock* clock,
                                                           std::unique_ptr<Store> store = nullptr);
  virtual ~Controller() = default;

  // As they were asked for, with their ports.
  virtual const std::vector<std::string>& addresses() const = 0;
  const std::string& address() const { return addresses().front(); }
  virtual const std::string& metrics_address() const = 0;  // empty: none
  virtual const Reactor& reactor() const = 0;
  virtual bool tells_callers_apart() const = 0;  // as its Authenticator
  // Works until `stop` is set (a signal handler may set it), then ends calls and streams and
  // returns; or earlier, with the reason, when nothing can be made durable any more. Call it once.
  virtual absl::Status Run(const std::atomic<bool>& stop) = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CONTROLLER_H_
