// ThreadPool: the threads with which one rank computes. The thread that calls ParallelFor is one of
// them, so a pool of one starts no thread at all.
//
// Callers cut work into tasks by the shape of the work alone, never by the number of threads; which
// thread runs which task is open. Results are then the same for every pool size as long as no task
// reads what another one writes.
#ifndef STRATA_DEVICE_THREAD_POOL_H_
#define STRATA_DEVICE_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "device/function_ref.h"

namespace strata::device {

// Limits libraries that use OpenMP to one thread where the calling thread calls them.
void KeepLibrariesSequential();

class ThreadPool {
 public:
  // Body of a parallel loop: `task` in [0, tasks), `thread` in [0, threads()). No two calls run at
  // the same time with the same `thread`, so it may index scratch memory.
  using Body = FunctionRef<void(int64_t task, int thread)>;

  // Starts threads - 1 workers; threads >= 1. Sets OpenMP's thread count to one on every thread of
  // the pool, the constructing one included, so that libraries called from tasks stay sequential.
  explicit ThreadPool(int threads);
  // No ParallelFor may be in progress.
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body for every task, in ascending order of starting, and returns when all have ended: what
  // the tasks wrote is visible to the caller. Allocates nothing. tasks < 2^32. One caller at a
  // time, and never from inside a task. The caller should be the constructing thread.
  void ParallelFor(int64_t tasks, Body body);

 private:
  void Work(int thread);
  // Runs tasks of loop `epoch` until none is left unclaimed.
  void RunTasks(uint32_t epoch, int thread);
  bool Claim(uint32_t epoch, uint32_t* remaining);

  std::vector<std::thread> workers_;

  // The current loop. Written by the caller before it publishes ticket_; read by whoever has
  // claimed a task, which keeps the loop alive until that task counts as done.
  const Body* body_ = nullptr;
  int64_t tasks_ = 0;
  bool running_ = false;

  // Loop number in the upper half, tasks not yet claimed in the lower: a worker that wakes late
  // sees from the loop number that its loop is over and cannot claim a task of the next one unseen.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // futex of idle workers
  std::atomic<uint32_t> sleeping_workers_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_THREAD_POOL_H_
