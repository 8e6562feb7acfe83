// Gives each connection of a Unix socket a name by which its calls are known.
//
// The kernel says who is at the other end of a Unix socket, but gRPC does not pass that on: all its
// Unix connections come from the peer "unix:". So gRPC gets one end of a pair of sockets of our
// own, whose other end has a name that nobody else can have, and bytes are passed between that and
// the client.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_UNIX_RELAY_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_UNIX_RELAY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/access/identity.h"

namespace strata::controller {

class UnixRelay {
 public:
  static constexpr size_t kFilesPerConnection = 3;  // with the server's end
  static constexpr absl::string_view kPeerPrefix = "unix-abstract:";

  // Internal: no memory or no files.
  static absl::StatusOr<std::unique_ptr<UnixRelay>> Start();
  ~UnixRelay();  // ends all connections
  UnixRelay(const UnixRelay&) = delete;
  UnixRelay& operator=(const UnixRelay&) = delete;

  // Owns `connection`, of `who`, from then on. Returns the end for the gRPC server, the caller's,
  // which does not block. From any thread.
  absl::StatusOr<int> Add(int connection, Identity who);
  // Who is at the other end of the connection that gRPC calls `peer`; null: it has ended, or is
  // none of these. From any thread.
  std::shared_ptr<const Identity> Find(const std::string& peer) const;

 private:
  struct Connection;

  UnixRelay(int poller, int wake);
  void Run();
  // Passes on what is there; whether it goes on at once, later, or is over.
  enum class Progress { kMore, kWait, kOver };
  static Progress Pump(Connection& connection);
  void Forget(Connection* connection);

  const int poller_;  // an epoll instance
  const int wake_;    // an eventfd: readable once it ends
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Identity>> peers_;    // by gRPC's name
  std::map<Connection*, std::unique_ptr<Connection>> connections_;  // of the thread, but for Add
  std::thread thread_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_UNIX_RELAY_H_
