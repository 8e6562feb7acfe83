#include "client/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace strata::client {
namespace {

TEST(BusySeconds, CountsAllTicksButThoseOfIdleAndWaitingProcessors) {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(BusySeconds("cpu  100 20 3 9000 500 4 5 6 77 88\ncpu0 1 1 1 1 1 1 1 1 1 1\n"),
                   138 * tick);
  EXPECT_DOUBLE_EQ(BusySeconds("cpu 1 2 3 4"), 6 * tick);  // of an old kernel
  EXPECT_EQ(BusySeconds(""), 0);
  EXPECT_EQ(BusySeconds("intr 1 2 3"), 0);
}

}  // namespace
}  // namespace strata::client
