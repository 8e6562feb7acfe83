// Takes the API's connections and hands them to the gRPC server.
//
// gRPC's own listener ends for good when accept() fails once for want of a file. This one closes at
// once what comes beyond the process's limit less a reserve, so that store, logs and later clients
// find files, and what one source takes beyond its share.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_ACCEPTOR_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "controller/service/transport/listen_address.h"
#include "controller/service/transport/places.h"

namespace strata::controller {

class Acceptor {
 public:
  // Files that connections leave to others, or half of all if there are fewer.
  static constexpr int kReservedFiles = 256;
  // Owns the connection, which does not block, from then on.
  using Take = std::function<void(int file)>;

  // FailedPrecondition: nothing can listen there, and why. Port 0: any free one. A Unix socket is
  // its user's alone (mode 0600), or also that of `socket_group` (0660) if that is not empty. It
  // takes the place of one that a dead process left, and PATH.lock, which stays, keeps others off.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const ListenAddress& address,
                                                          const std::string& socket_group = "");
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  const ListenAddress& address() const { return address_; }  // with its port
  // Files that connections may have, under the process's limit.
  static int MostFiles();
  // Once: takes connections, for which there are `places` (null: no limit but the process's) and
  // files with numbers below `most_files`, on a thread of its own until it is destroyed.
  void Begin(Take take, std::unique_ptr<Places> places = nullptr, int most_files = MostFiles());

 private:
  Acceptor(const ListenAddress& address, int listener, int lock, int wake)
      : address_(address), listener_(listener), lock_(lock), wake_(wake) {}
  void Run();

  ListenAddress address_;
  const int listener_;
  const int lock_;  // of a Unix socket; else -1
  const int wake_;  // an eventfd: readable once it ends
  Take take_;
  std::unique_ptr<Places> places_;
  int most_files_ = 0;
  std::thread thread_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_ACCEPTOR_H_
