// A UCX context with one worker, opened and closed as one thing.
#ifndef STRATA_COLLECTIVES_UCX_WORKER_H_
#define STRATA_COLLECTIVES_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectives/connection_guard.h"
#include "collectives/ucx_communicator.h"

namespace strata::collectives {

absl::Status UcxError(const char* what, ucs_status_t status);

class UcxWorker final : public UcxEndpoint {
 public:
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Open(const UcxOptions& options);
  ~UcxWorker() override;
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  std::string Address() const override;

  // What another rank's Address() says. InvalidArgument: damaged or of another version.
  struct Peer {
    std::string worker_address;
    std::vector<std::string> listeners;  // see ConnectionGuard
    bool same_host = false;              // shares memory with this process, as far as can be told
  };
  absl::StatusOr<Peer> ParseAddress(const std::string& address) const;

  // Lets this world's ranks in, and nobody else. Before the first connection.
  void Admit(const WorldKey& key, int rank, const std::vector<Peer>& peers);

  const UcxOptions& options() const { return options_; }
  ucp_worker_h worker() const { return worker_; }

  // Sleeps until the worker has something to do, Wake was called, or the time has passed.
  void Wait(absl::Duration timeout);
  // The same without regard to the worker.
  void WaitForWake(absl::Duration timeout);
  void Wake() const;

 private:
  explicit UcxWorker(const UcxOptions& options) : options_(options) {}
  absl::Status Start();
  absl::Status StartContext();
  void Sleep(absl::Duration timeout, bool worker);

  UcxOptions options_;
  ConnectionGuard guard_;  // outlives the worker's sockets
  std::string host_;       // names the memory that processes can share; empty: none
  std::string address_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int worker_fd_ = -1;  // readable when an armed worker has events; owned by UCX
  int wake_fd_ = -1;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_UCX_WORKER_H_
