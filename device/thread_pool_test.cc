#include "device/thread_pool.h"

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace strata::device {
namespace {

TEST(ThreadPool, RunsEveryTaskExactlyOnceForAnyThreadCount) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<int> runs(tasks, 0);  // not atomic: a task belongs to one thread
      pool.ParallelFor(tasks, [&](int64_t task, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        ++runs[task];
      });
      for (const int count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, WritesOfOneLoopAreSeenByTheNext) {
  ThreadPool pool(3);
  std::vector<int64_t> values(64, 0);
  // Many short loops, each reading what other tasks wrote in the loop before.
  for (int64_t round = 0; round < 3000; ++round) {
    std::vector<int64_t> before = values;
    pool.ParallelFor(64, [&](int64_t task, int) { values[task] = before[(task + 1) % 64] + 1; });
  }
  for (const int64_t value : values) EXPECT_EQ(value, 3000);
}

TEST(ThreadPool, ScratchIndexedByThreadIsNeverShared) {
  ThreadPool pool(4);
  struct alignas(64) Scratch {
    int64_t sum = 0;
  };
  std::vector<Scratch> scratch(4);
  for (int round = 0; round < 200; ++round) {
    pool.ParallelFor(100, [&](int64_t task, int thread) { scratch[thread].sum += task; });
  }
  int64_t sum = 0;
  for (const Scratch& part : scratch) sum += part.sum;
  EXPECT_EQ(sum, 200 * 4950);
}

TEST(ThreadPool, SleepingWorkersAndSleepingCallerWakeUp) {
  ThreadPool pool(2);
  // Each of two tasks waits for the other, so both threads must take part, from sleep or spinning.
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](int64_t, int) {
      arrived.fetch_add(1);
      arrived.notify_all();
      for (int seen = arrived.load(); seen != 2; seen = arrived.load()) arrived.wait(seen);
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, EveryThreadIsLimitedToOneOpenMpThread) {
  ThreadPool pool(3);
  std::atomic<int> widest{0};
  pool.ParallelFor(64, [&](int64_t, int) {
    const int threads = omp_get_max_threads();
    if (threads > widest.load()) widest.store(threads);
  });
  EXPECT_EQ(widest.load(), 1);
}

TEST(ThreadPool, PoolsOfOneProcessAreIndependent) {
  ThreadPool outer(2);
  std::atomic<int64_t> sum{0};
  outer.ParallelFor(4, [&](int64_t, int) {
    ThreadPool inner(2);
    inner.ParallelFor(10, [&](int64_t task, int) { sum.fetch_add(task); });
  });
  EXPECT_EQ(sum.load(), 4 * 45);
}

}  // namespace
}  // namespace strata::device
