#include "planner/search/rank_room.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

v1::Node NodeOf(const char* name, const char* kind, int devices, int64_t host, int64_t device) {
  v1::Node node;
  node.set_name(absl::StrCat("nodes/", name));
  node.set_device(kind);
  node.set_devices(devices);
  node.set_host_memory_bytes(host);
  node.set_device_memory_bytes(device);
  return node;
}

RankRoom LeastOf(const std::string& device, int64_t ranks) {
  RankRoom room;
  for (const v1::Node& node : {NodeOf("a", "h100", 8, 1600, 80), NodeOf("b", "h100", 4, 1000, 79),
                               NodeOf("c", "h200", 8, 2000, 140), NodeOf("d", "cpu", 2, 60, 0),
                               NodeOf("e", "cpu", 1, 40, 0), NodeOf("old", "h100", 8, 0, 0),
                               NodeOf("old2", "cpu", 8, 0, 0)}) {
    TakeLeast(node, device, ranks, room);
  }
  return room;
}

TEST(RankRoom, OfAKind_IsThatOfItsSmallestDeviceAndOfTheHostThatIsSharedMost) {
  const RankRoom room = LeastOf("h100", 16);
  EXPECT_EQ(room.device, 79);
  EXPECT_EQ(room.device_node, "b");
  EXPECT_EQ(room.kind, "h100");
  EXPECT_EQ(room.host, 200);  // a: eight ranks, b: four
  EXPECT_EQ(room.host_node, "a");
}

TEST(RankRoom, OfFewRanks_ShareAHostByAsManyAsThereAre) {
  EXPECT_EQ(LeastOf("h100", 2).host, 500);  // b, 1000 for two
  EXPECT_EQ(LeastOf("cpu", 1).host, 40);
  EXPECT_EQ(LeastOf("cpu", 2).host, 30);
}

TEST(RankRoom, OfCpus_HasNoDevice_AndOfAnyGpuAllKindsButThoseCount) {
  EXPECT_EQ(LeastOf("", 1).host, 40);
  EXPECT_EQ(LeastOf("cpu", 1).device, 0);
  EXPECT_EQ(LeastOf("gpu", 1).device, 79);
  EXPECT_EQ(LeastOf("h200", 1).device, 140);
}

TEST(RankRoom, OfNodesThatDoNotTell_IsNotKnown) {
  const RankRoom room = LeastOf("a100", 8);
  EXPECT_EQ(room.device, 0);
  EXPECT_EQ(room.host, 0);
}

}  // namespace
}  // namespace strata::planner
