#include <gtest/gtest.h>

#include "controller/logic/core.h"
#include "controller/logic/names.h"
#include "controller/logic/restart_policy.h"

namespace strata::controller {
namespace {

TEST(RestartPolicy, TheFirstRestartIsImmediateAndTheOthersBackOffToABound) {
  EXPECT_EQ(BackOff(0, 0.2), 0);
  EXPECT_EQ(BackOff(1, 0.2), 0);
  EXPECT_EQ(BackOff(2, 0.2), 0.2);
  EXPECT_EQ(BackOff(3, 0.2), 0.4);
  EXPECT_EQ(BackOff(100, 0.2), 8);
}

}  // namespace
}  // namespace strata::controller
