#include "memory/numa.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::memory {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A /sys of two nodes, an NVMe disk with a partition on the second, and a disk that does not say.
class NumaTest : public ::testing::Test {
 protected:
  NumaTest() {
    std::string name = ::testing::TempDir() + "/sysXXXXXX";
    root_ = mkdtemp(name.data());
    Write("devices/system/node/online", "0-1");
    Write("devices/system/node/node0/cpulist", "0-2,8");
    Write("devices/system/node/node1/cpulist", "3-4");
    Write("devices/pci0/nvme0/numa_node", "1");
    Write("devices/pci0/nvme0/nvme0n1/nvme0n1p1/partition", "1");
    Write("devices/virtual/vda/numa_node", "-1");
    fs::create_directories(root_ / "dev/block");
    fs::create_symlink("../../devices/pci0/nvme0/nvme0n1/nvme0n1p1", root_ / "dev/block/259:1");
    fs::create_symlink("../../devices/virtual/vda", root_ / "dev/block/254:0");
  }
  ~NumaTest() override { fs::remove_all(root_); }

  void Write(const char* path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  NumaNodes nodes() const { return NumaNodes(root_.string()); }

  fs::path root_;
};

cpu_set_t Mine() {
  cpu_set_t mine;
  EXPECT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
  return mine;
}
int FirstOf(const cpu_set_t& processors) {
  int first = 0;
  while (!CPU_ISSET(first, &processors)) ++first;
  return first;
}

TEST_F(NumaTest, NodesAndTheirProcessorsAreRead) {
  EXPECT_TRUE(nodes().several());
  EXPECT_THAT(nodes().ProcessorsOf(0), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(nodes().ProcessorsOf(1), ElementsAre(3, 4));
  EXPECT_THAT(nodes().ProcessorsOf(2), IsEmpty());
  EXPECT_GE(nodes().OfThread(), 0);
}

TEST_F(NumaTest, APartitionIsOnItsControllersNode) {
  EXPECT_EQ(nodes().OfDevice(259, 1), 1);
  EXPECT_EQ(nodes().OfDevice(254, 0), -1);  // does not say
  EXPECT_EQ(nodes().OfDevice(7, 7), -1);    // is not there
  EXPECT_EQ(nodes().OfDisk("/no/such/folder"), -1);
}

TEST_F(NumaTest, AMachineOfOneNodeHasNothingToChoose) {
  Write("devices/system/node/online", "0");
  EXPECT_FALSE(nodes().several());
  EXPECT_EQ(nodes().OfThread(), -1);
  EXPECT_EQ(nodes().OfDevice(259, 1), -1);
  fs::remove_all(root_ / "devices");
  EXPECT_FALSE(nodes().several());
}

TEST_F(NumaTest, ThreadsMadeInAScopeStayOnTheNodeAndTheirMakerDoesNot) {
  const cpu_set_t before = Mine();
  const int first = FirstOf(before);
  Write("devices/system/node/node1/cpulist", absl::StrCat(first, ",1023"));
  cpu_set_t inside, of_thread;
  std::promise<void> over;
  std::thread made;
  {
    const NodeScope scope(1, nodes());
    inside = Mine();
    made = std::thread([&] {
      over.get_future().wait();
      of_thread = Mine();
    });
  }
  over.set_value();
  made.join();
  EXPECT_EQ(CPU_COUNT(&inside), 1);
  EXPECT_TRUE(CPU_ISSET(first, &inside));
  EXPECT_TRUE(CPU_EQUAL(&inside, &of_thread));
  const cpu_set_t after = Mine();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(NumaTest, AScopeOfANodeThatTheThreadMayNotUseChangesNothing) {
  const cpu_set_t before = Mine();
  Write("devices/system/node/node1/cpulist", "1022-1023");
  for (const int node : {1, 5, -1}) {
    const NodeScope scope(node, nodes());
    const cpu_set_t inside = Mine();
    EXPECT_TRUE(CPU_EQUAL(&before, &inside));
  }
}

}  // namespace
}  // namespace strata::memory
