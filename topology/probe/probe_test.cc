#include "topology/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace strata::topology {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// /sys of a machine with two sockets: a GPU and an InfiniBand adapter below one switch of the
// first, a GPU at the second; a network card, an NVMe disk and a hard disk.
class ProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    sys_ = fs::path(testing::TempDir()) / "sys";
    fs::remove_all(sys_);
    for (const char* node : {"node0", "node1", "power"}) {
      fs::create_directories(sys_ / "devices/system/node" / node);
    }
    const std::string near = "pci0000:3a/0000:3a:00.0/0000:3a:01.0";
    AddPci(near + "/0000:3b:01.0/0000:3b:00.0", 0);
    AddPci("pci0000:b0/0000:b0:00.0/0000:b1:00.0", 1);
    const fs::path infiniband = AddPci(near + "/0000:3b:02.0/0000:3c:00.0", 0);
    const fs::path ethernet = AddPci("pci0000:00/0000:00:1c.0/0000:01:00.0", 0);
    const fs::path nvme = AddPci("pci0000:b0/0000:b0:02.0/0000:b5:00.0", 1);
    Link("class/net/ib0/device", infiniband);
    Link("class/net/eth0/device", ethernet);
    Link("class/infiniband/mlx5_0/device", infiniband);
    Link("block/nvme0n1/device", nvme);
    fs::create_directories(sys_ / "class/net/lo");
    Put("class/net/eth0/speed", "25000\n");
    Put("class/net/eth0/operstate", "up\n");
    Put("class/net/ib0/speed", "-1\n");
    Put("class/net/ib0/operstate", "down\n");
    Put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    Put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    Put("block/nvme0n1/size", "2000000\n");
    Put("block/nvme0n1/queue/rotational", "0\n");
    Put("block/sda/size", "1000\n");
    Put("block/sda/queue/rotational", "1\n");
    Put("block/loop0/size", "8\n");
    Put("block/sr0/size", "0\n");
  }

  void Put(const std::string& path, const std::string& text) {
    fs::create_directories((sys_ / path).parent_path());
    std::ofstream(sys_ / path) << text;
  }
  void Link(const std::string& path, const fs::path& target) {
    fs::create_directories((sys_ / path).parent_path());
    fs::create_directory_symlink(target, sys_ / path);
  }
  fs::path AddPci(const std::string& path, int numa) {
    const fs::path folder = sys_ / "devices" / path;
    Put("devices/" + path + "/numa_node", absl::StrCat(numa, "\n"));
    Link("bus/pci/devices/" + folder.filename().string(), folder);
    return folder;
  }

  // Beside this test's program.
  static std::string FakeNvml() {
    return fs::read_symlink("/proc/self/exe").parent_path() / "libfake_nvml.so";
  }

  fs::path sys_;
};

TEST_F(ProbeTest, FindsAdaptersWithTheirRdmaDevices) {
  const Machine machine = Probe({sys_, "libabsent.so"}).Read();
  EXPECT_EQ(machine.numa_nodes, 2);
  ASSERT_EQ(machine.adapters.size(), 2u);
  EXPECT_EQ(machine.adapters[0].name, "eth0");
  EXPECT_EQ(machine.adapters[0].bits_per_second, 25'000'000'000);
  EXPECT_EQ(machine.adapters[0].state, "up");
  EXPECT_EQ(machine.adapters[1].name, "ib0");
  EXPECT_EQ(machine.adapters[1].rdma, "mlx5_0");
  EXPECT_EQ(machine.adapters[1].bits_per_second, 400'000'000'000);
  EXPECT_EQ(machine.adapters[1].attachment.pci, "0000:3c:00.0");
}

TEST_F(ProbeTest, FindsDisksAndLeavesOutVirtualOnes) {
  const Machine machine = Probe({sys_, "libabsent.so"}).Read();
  ASSERT_EQ(machine.disks.size(), 2u);
  EXPECT_EQ(machine.disks[0].name, "nvme0n1");
  EXPECT_EQ(machine.disks[0].bytes, 1'024'000'000);
  EXPECT_FALSE(machine.disks[0].rotational);
  EXPECT_EQ(machine.disks[0].attachment.numa, 1);
  EXPECT_TRUE(machine.disks[1].rotational);
  EXPECT_EQ(machine.disks[1].attachment.numa, -1);
}

TEST_F(ProbeTest, ReadsAcceleratorsFromTheManagementLibrary) {
  const Machine machine = Probe({sys_, FakeNvml()}).Read();
  ASSERT_EQ(machine.accelerators.size(), 2u);
  const Accelerator& first = machine.accelerators[0];
  EXPECT_EQ(first.kind, "h100");
  EXPECT_EQ(first.active_nvlinks, 3);
  EXPECT_EQ(first.fabric_clique, "00010203-0405-0607-0809-0a0b0c0d0e0f.7");
  EXPECT_EQ(first.attachment.pci, "0000:3b:00.0");
  EXPECT_THAT(first.attachment.bridges,
              ElementsAre("0000:3a:00.0", "0000:3a:01.0", "0000:3b:01.0"));
  EXPECT_EQ(machine.accelerators[1].fabric_clique, "");  // still being set up
  EXPECT_EQ(machine.accelerators[1].attachment.numa, 1);
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("GPU 2 does not answer")));
}

TEST_F(ProbeTest, TellsHowNearDevicesAre) {
  const Machine machine = Probe({sys_, FakeNvml()}).Read();
  ASSERT_EQ(machine.accelerators.size(), 2u);
  const Attachment& gpu0 = machine.accelerators[0].attachment;
  const Attachment& gpu1 = machine.accelerators[1].attachment;
  const Attachment& ethernet = machine.adapters[0].attachment;
  const Attachment& infiniband = machine.adapters[1].attachment;
  EXPECT_EQ(NearnessOf(gpu0, infiniband), Nearness::kSameSwitch);
  EXPECT_EQ(NearnessOf(gpu0, ethernet), Nearness::kSameNuma);
  EXPECT_EQ(NearnessOf(gpu1, infiniband), Nearness::kAcrossNuma);
  EXPECT_EQ(NearnessOf(gpu1, machine.disks[0].attachment), Nearness::kSameNuma);
  EXPECT_EQ(NearnessOf(gpu0, machine.disks[1].attachment), Nearness::kUnknown);
}

TEST_F(ProbeTest, WithoutAnythingFindsNothing) {
  const Machine machine = Probe({"/nonexistent", "libabsent.so"}).Read();
  EXPECT_THAT(machine.accelerators, IsEmpty());
  EXPECT_THAT(machine.adapters, IsEmpty());
  EXPECT_THAT(machine.disks, IsEmpty());
  EXPECT_THAT(machine.notes, IsEmpty());
}

TEST_F(ProbeTest, NotesALibraryThatIsNotTheRightOne) {
  const Machine machine = Probe({sys_, "libm.so.6"}).Read();
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("libm.so.6: lacks functions")));
}

TEST_F(ProbeTest, RunsOnThisMachine) {
  const Machine machine = Probe(ProbePaths()).Read();
  for (const NetworkAdapter& adapter : machine.adapters) EXPECT_GE(adapter.bits_per_second, 0);
  for (const Disk& disk : machine.disks) EXPECT_GT(disk.bytes, 0);
}

}  // namespace
}  // namespace strata::topology
