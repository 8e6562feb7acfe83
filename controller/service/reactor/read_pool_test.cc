#include "controller/service/reactor/read_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace strata::controller {
namespace {

TEST(ReadPool, DoesAllThatIsLeftBeforeItEnds) {
  std::atomic<int> done{0};
  {
    ReadPool pool(2);
    for (int i = 0; i < 100; ++i) pool.Run([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(ReadPool, ALongReadLeavesTheOtherThreadsToOthers) {
  std::promise<void> go;
  std::shared_future<void> gone(go.get_future());
  std::promise<void> served;
  ReadPool pool(2);
  pool.Run([gone] { gone.wait(); });
  pool.Run([&] { served.set_value(); });
  served.get_future().wait();  // though the first one still waits
  go.set_value();
}

}  // namespace
}  // namespace strata::controller
