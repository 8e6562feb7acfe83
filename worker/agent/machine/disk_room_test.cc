#include "worker/agent/machine/disk_room.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(DiskRoomTest, AFolderThatIsNotThereTellsNothing) {
  EXPECT_TRUE(FreeBytes(testing::TempDir()).has_value());
  EXPECT_FALSE(FreeBytes("/no/such/folder").has_value());
}

}  // namespace
}  // namespace strata::worker
