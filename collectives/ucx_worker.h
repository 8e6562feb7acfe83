// A UCX context with one worker, opened and closed as one thing.
#ifndef STRATA_COLLECTIVES_UCX_WORKER_H_
#define STRATA_COLLECTIVES_UCX_WORKER_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/connection_guard.h"
#include "collectives/process_endpoint.h"

namespace strata::collectives {

absl::Status UcxError(const char* what, ucs_status_t status);

class UcxWorker {
 public:
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Open(const ProcessOptions& options);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // Another worker connects with these: opaque bytes of a few hundred, and where this one listens
  // (connection_guard.h).
  const std::string& address() const { return address_; }
  std::vector<std::string> listeners() const { return guard_.listeners(); }

  // Lets this world's ranks in, and nobody else. `listeners`: of the other workers, by rank. Before
  // the first connection.
  void Admit(const WorldKey& key, int rank, const std::vector<std::vector<std::string>>& listeners);

  ucp_worker_h worker() const { return worker_; }

  // Before a sleep until file() is readable. False: there is something to do already, or an error
  // that progress will report.
  bool BeginSleep() { return ucp_worker_arm(worker_) == UCS_OK; }
  int file() const { return worker_fd_; }

 private:
  UcxWorker() = default;
  absl::Status Start(const ProcessOptions& options);
  absl::Status StartContext(const ProcessOptions& options);

  ConnectionGuard guard_;  // outlives the worker's sockets
  std::string address_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int worker_fd_ = -1;  // owned by UCX
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_UCX_WORKER_H_
