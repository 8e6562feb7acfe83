// Serves small pages over HTTP/1.1, or HTTPS, to whoever asks with GET: one request per connection.
//
// One thread, many connections: each has so long for its request and for taking the answer, and
// when there are too many the oldest is dropped, so that connections which say nothing keep nobody
// out.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_PAGE_SERVER_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_PAGE_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "controller/service/transport/acceptor.h"
#include "security/tls_server.h"

namespace strata::controller {

struct PageRequest {
  std::string path;   // without what follows a '?'
  std::string peer;   // as gRPC writes it: "ipv4:10.0.0.1:1234"
  std::string chain;  // the client's certificate and those behind it, PEM; empty: not asked for
};
struct PageAnswer {
  int code = 200;  // of HTTP
  std::string text;
};

class PageServer {
 public:
  static constexpr size_t kMostConnections = 64;
  static constexpr size_t kMostRequestBytes = 8 << 10;
  static constexpr double kRequestSeconds = 5;  // for the handshake, too
  static constexpr double kAnswerSeconds = 30;

  // On its thread.
  using Answer = std::function<PageAnswer(const PageRequest&)>;

  // HOST:PORT, port 0: any free one. `tls`: null: plain. FailedPrecondition: as Acceptor::Listen;
  // InvalidArgument: as ParseListenAddress. Borrowed: clock.
  static absl::StatusOr<std::unique_ptr<PageServer>> Listen(
      const std::string& address, std::unique_ptr<security::TlsServer> tls,
      const common::Clock* clock);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  std::string address() const { return acceptor_->address().ToString(); }  // with its port
  bool is_tls() const { return tls_ != nullptr; }
  // Once.
  void Begin(Answer answer);

 private:
  struct Connection;

  PageServer(std::unique_ptr<Acceptor> acceptor, std::unique_ptr<security::TlsServer> tls,
             const common::Clock* clock, int wake);
  void Run();
  // Those that came, in the places of the oldest where there are too many.
  void TakeNew();
  // As far as it goes now; false: it is over.
  bool Advance(Connection& connection);
  bool ReadRequest(Connection& connection);
  bool WriteAnswer(Connection& connection);
  void TakeLeave(Connection& connection);

  std::unique_ptr<Acceptor> acceptor_;
  const std::unique_ptr<security::TlsServer> tls_;
  const common::Clock* const clock_;
  const int wake_;  // an eventfd: something has come, or it ends
  Answer answer_;
  std::mutex mutex_;  // guards what follows
  std::vector<int> arrived_;
  bool ends_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;  // the thread's, oldest first
  std::thread thread_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_PAGE_SERVER_H_
