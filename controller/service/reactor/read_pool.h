// Threads that answer reads from snapshots: neither the reactor's nor gRPC's, so that a long list
// holds up nobody's heartbeat and nobody's write.
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_READ_POOL_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_READ_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace strata::controller {

class ReadPool {
 public:
  explicit ReadPool(size_t threads);
  // Does what is left first.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  // From any thread. What waits is bounded by the calls that wait: each is one.
  void Run(std::function<void()> task);

 private:
  void Work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_READ_POOL_H_
