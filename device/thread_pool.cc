#include "device/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <limits>

#include "common/check.h"

namespace strata::device {
namespace {

// About two microseconds: long enough to bridge the gap between two kernels, short enough not to
// take the core from another rank.
constexpr int kSpins = 64;

// Both return on a spurious wake-up or a signal too; callers look again.
void FutexWait(std::atomic<uint32_t>* word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr,
          0);
}

void FutexWake(std::atomic<uint32_t>* word, int waiters) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, waiters, nullptr,
          nullptr, 0);
}

}  // namespace

void KeepLibrariesSequential() { omp_set_num_threads(1); }

ThreadPool::ThreadPool(int threads) {
  STRATA_CHECK(threads >= 1);
  KeepLibrariesSequential();
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  STRATA_CHECK(!running_);
  stopping_.store(true);
  epoch_.fetch_add(1);
  FutexWake(&epoch_, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t tasks, Body body) {
  STRATA_CHECK(!running_);
  STRATA_CHECK(tasks >= 0 && tasks <= std::numeric_limits<uint32_t>::max());
  if (tasks == 0) return;
  running_ = true;
  if (tasks == 1 || workers_.empty()) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    running_ = false;
    return;
  }
  body_ = &body;
  tasks_ = tasks;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t{epoch} << 32 | static_cast<uint32_t>(tasks), std::memory_order_release);
  // Sequentially consistent on both sides: either the worker sees the new number before it sleeps
  // or this thread sees that it sleeps.
  epoch_.store(epoch);
  if (sleeping_workers_.load() > 0)
    FutexWake(&epoch_, static_cast<int>(std::min<int64_t>(tasks - 1, INT_MAX)));
  RunTasks(epoch, 0);

  const uint32_t all = static_cast<uint32_t>(tasks);
  for (int spin = 0; spin < kSpins && done_.load(std::memory_order_acquire) != all; ++spin) {
    _mm_pause();
  }
  if (done_.load(std::memory_order_acquire) != all) {
    caller_sleeps_.store(1);
    for (uint32_t done = done_.load(); done != all; done = done_.load()) FutexWait(&done_, done);
    caller_sleeps_.store(0);
  }
  running_ = false;
}

bool ThreadPool::Claim(uint32_t epoch, uint32_t* remaining) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (ticket >> 32 == epoch && static_cast<uint32_t>(ticket) != 0) {
    if (ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) {
      *remaining = static_cast<uint32_t>(ticket);
      return true;
    }
  }
  return false;
}

void ThreadPool::RunTasks(uint32_t epoch, int thread) {
  uint32_t remaining = 0;
  while (Claim(epoch, &remaining)) {
    const int64_t tasks = tasks_;
    (*body_)(tasks - remaining, thread);
    // The last task to end wakes the caller; after this the loop must not be touched.
    if (done_.fetch_add(1) + 1 == tasks && caller_sleeps_.load() != 0) FutexWake(&done_, 1);
  }
}

void ThreadPool::Work(int thread) {
  KeepLibrariesSequential();
  uint32_t seen = 0;
  while (true) {
    uint32_t epoch = epoch_.load();
    for (int spin = 0; spin < kSpins && epoch == seen; ++spin) {
      _mm_pause();
      epoch = epoch_.load();
    }
    while (epoch == seen) {
      sleeping_workers_.fetch_add(1);
      FutexWait(&epoch_, seen);
      sleeping_workers_.fetch_sub(1);
      epoch = epoch_.load();
    }
    if (stopping_.load()) return;
    seen = epoch;
    RunTasks(epoch, thread);
  }
}

}  // namespace strata::device
