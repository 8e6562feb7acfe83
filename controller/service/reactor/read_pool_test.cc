#include "controller/service/reactor/read_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace strata::controller {
namespace {

TEST(ReadPool, DoesAllThatIsLeftBeforeItEnds) {
  std::atomic<int> done{0};
  {
    ReadPool pool(2, 100);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.Run([&] { ++done; }));
  }
  EXPECT_EQ(done, 100);
}

TEST(ReadPool, ALongReadLeavesTheOtherThreadsToOthers) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  std::promise<void> served;
  ReadPool pool(2, 10);
  ASSERT_TRUE(pool.Run([gone] { gone.wait(); }));
  ASSERT_TRUE(pool.Run([&] { served.set_value(); }));
  served.get_future().wait();  // though the first one still waits
  go.set_value();
}

TEST(ReadPool, RefusesWhatWouldWaitBehindTooMany) {
  std::promise<void> go, begun;
  std::shared_future<void> gone(go.get_future());
  int done = 0;
  {
    ReadPool pool(1, 2);
    ASSERT_TRUE(pool.Run([&, gone] {
      begun.set_value();
      gone.wait();
    }));
    begun.get_future().wait();  // it waits no more
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(pool.Run([&] { ++done; }));
    EXPECT_FALSE(pool.Run([&] { ++done; }));
    go.set_value();
  }
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace strata::controller
