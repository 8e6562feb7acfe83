// Decodes MUNGE credentials on a few threads: the daemon may take its time, gRPC's threads may not.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_MUNGE_DECODER_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_MUNGE_DECODER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/access/identity.h"

namespace strata::controller {

class MungeDecoder {
 public:
  static constexpr size_t kThreads = 4;
  static constexpr size_t kMostWaiting = 1024;  // credentials
  using Done = std::function<void(absl::StatusOr<Identity>)>;

  // `socket`: the daemon's; empty: the usual one.
  explicit MungeDecoder(std::string socket);
  ~MungeDecoder();  // what waits is refused with Unavailable
  MungeDecoder(const MungeDecoder&) = delete;
  MungeDecoder& operator=(const MungeDecoder&) = delete;

  // Calls `done` once, on a thread of its own, with users/NAME by "munge", or Unauthenticated or
  // Unavailable; at once with ResourceExhausted when too many wait.
  void Decode(std::string credential, Done done);

 private:
  struct Waiting {
    std::string credential;
    Done done;
  };
  void Run();

  const std::string socket_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_MUNGE_DECODER_H_
