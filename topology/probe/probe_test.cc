#include "topology/probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace strata::topology {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The machine of hardware_test.cc, and what its /sys says of rates and states.
class ProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path sys = fs::path(testing::TempDir()) / "sys";
    fs::remove_all(sys);
    std::ostringstream text;
    text << std::ifstream("topology/probe/two_sockets_eight_gpus.xml").rdbuf();
    paths_ = {.sys = sys, .nvml = "libabsent.so", .hwloc_xml = text.str()};
    Put("class/net/eth0/speed", "25000\n");
    Put("class/net/eth0/operstate", "up\n");
    Put("class/net/ibs0/speed", "-1\n");
    Put("class/net/ibs0/operstate", "down\n");
    Put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    Put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    Put("block/nvme0n1/size", "2000000\n");
    Put("block/nvme0n1/queue/rotational", "0\n");
    Put("block/sda/size", "1000\n");
    Put("block/sda/queue/rotational", "1\n");
  }

  void Put(const std::string& path, const std::string& text) const {
    const fs::path file = fs::path(paths_.sys) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Machine Read() const {
    absl::StatusOr<Machine> machine = Probe(paths_).Read();
    EXPECT_TRUE(machine.ok()) << machine.status();
    return *std::move(machine);
  }

  // A library with two GPUs in one NVLink fabric, and a third that does not answer.
  static std::string FakeNvml() {
    const fs::path machine = fs::path(testing::TempDir()) / "gpus";
    std::ofstream(machine) << "gpu name=NVIDIA H100 80GB HBM3|bus=0x1c|links=3|fabric=3|clique=7\n"
                              "gpu name=NVIDIA H100 80GB HBM3|bus=0x9e|links=3|fabric=2|clique=7\n"
                              "gpu name=NVIDIA H100 80GB HBM3|handle=15\n";
    setenv("STRATA_FAKE_NVML", machine.c_str(), 1);
    return fs::current_path() / "topology/nvml/libfake_nvml.so";
  }

  ProbePaths paths_;
};

TEST_F(ProbeTest, FindsAdaptersWithTheirRdmaDevices) {
  const Machine machine = Read();
  ASSERT_EQ(machine.adapters.size(), 10u);
  EXPECT_EQ(machine.adapters[0].name, "eth0");
  EXPECT_EQ(machine.adapters[0].bits_per_second, 25'000'000'000);
  EXPECT_EQ(machine.adapters[0].state, "up");
  EXPECT_EQ(machine.adapters[2].name, "ibs0");
  EXPECT_EQ(machine.adapters[2].rdma, "mlx5_0");
  EXPECT_EQ(machine.adapters[2].bits_per_second, 400'000'000'000);
  EXPECT_EQ(machine.adapters[2].attachment.pci, "0000:1b:00.0");
}

TEST_F(ProbeTest, FindsDisksAndLeavesOutThoseWithoutAMedium) {
  const Machine machine = Read();
  ASSERT_EQ(machine.disks.size(), 2u);
  EXPECT_EQ(machine.disks[0].name, "nvme0n1");
  EXPECT_EQ(machine.disks[0].bytes, 1'024'000'000);
  EXPECT_FALSE(machine.disks[0].rotational);
  EXPECT_EQ(machine.disks[0].attachment.numa, 0);
  EXPECT_TRUE(machine.disks[1].rotational);
}

TEST_F(ProbeTest, ReadsAcceleratorsFromTheManagementLibrary) {
  paths_.nvml = FakeNvml();
  const Machine machine = Read();
  ASSERT_EQ(machine.accelerators.size(), 2u);
  const Accelerator& first = machine.accelerators[0];
  EXPECT_EQ(first.kind, "h100");
  EXPECT_EQ(first.active_nvlinks, 3);
  EXPECT_EQ(first.fabric_clique, "00010203-0405-0607-0809-0a0b0c0d0e0f.7");
  EXPECT_EQ(first.attachment.pci, "0000:1c:00.0");
  EXPECT_EQ(NearnessOf(first.attachment, machine.adapters[2].attachment), Nearness::kSameSwitch);
  EXPECT_EQ(machine.accelerators[1].fabric_clique, "");  // still being set up
  EXPECT_EQ(machine.accelerators[1].attachment.numa, 1);
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("another machine's description"),
                                         HasSubstr("GPU 2 does not answer")));
}

TEST_F(ProbeTest, NotesAnAcceleratorThatPciDoesNotShow) {
  paths_.nvml = FakeNvml();
  paths_.hwloc_xml = absl::StrReplaceAll(paths_.hwloc_xml, {{"0000:1c:00.0", "0000:1c:00.7"}});
  const Machine machine = Read();
  EXPECT_EQ(machine.accelerators[0].attachment.pci, "0000:1c:00.0");
  EXPECT_THAT(machine.notes, testing::Contains(HasSubstr("GPU 0 (0000:1c:00.0) is not among")));
}

TEST_F(ProbeTest, NotesCoresThatThisProcessMayNotUse) {
  paths_.hwloc_xml = absl::StrReplaceAll(
      paths_.hwloc_xml, {{R"(allowed_cpuset="0x000000ff")", R"(allowed_cpuset="0x3")"}});
  EXPECT_THAT(Read().notes, testing::Contains(HasSubstr("may use 2 of the 8 cores")));
}

TEST_F(ProbeTest, WithoutSysRatesAndStatesAreNotKnown) {
  paths_.sys = "/nonexistent";
  const Machine machine = Read();
  EXPECT_THAT(machine.accelerators, IsEmpty());
  EXPECT_THAT(machine.disks, IsEmpty());
  EXPECT_EQ(machine.adapters.at(0).bits_per_second, 0);
}

TEST_F(ProbeTest, NotesALibraryThatIsNotTheRightOne) {
  paths_.nvml = "libm.so.6";
  EXPECT_THAT(Read().notes, testing::Contains(HasSubstr("libm.so.6: lacks functions")));
}

TEST_F(ProbeTest, RunsOnThisMachine) {
  paths_ = ProbePaths();
  const Machine machine = Read();
  EXPECT_GE(machine.numa_nodes.size(), 1u);
  for (const NetworkAdapter& adapter : machine.adapters) EXPECT_GE(adapter.bits_per_second, 0);
  for (const Disk& disk : machine.disks) EXPECT_GT(disk.bytes, 0);
}

}  // namespace
}  // namespace strata::topology
