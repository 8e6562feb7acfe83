// Two sockets of four cores; below each, four PCIe switches with a GPU and an adapter of 400 Gb/s,
// two of them with a disk too: the shape of a DGX H100. The first socket's own bridge has a network
// card and a hard disk; the place of one more card is not told.
#include "topology/probe/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_replace.h"

namespace strata::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Xml() {
  std::ostringstream text;
  text << std::ifstream("topology/probe/two_sockets_eight_gpus.xml").rdbuf();
  return text.str();
}

Hardware Make(const std::string& xml) {
  absl::StatusOr<Hardware> hardware = Hardware::Load(xml);
  EXPECT_TRUE(hardware.ok()) << hardware.status();
  return *std::move(hardware);
}

std::vector<std::string> NamesOf(const std::vector<Hardware::Device>& devices) {
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const Hardware::Device& device : devices) names.push_back(device.name);
  return names;
}

Attachment Named(const std::vector<Hardware::Device>& devices, const std::string& name) {
  for (const Hardware::Device& device : devices) {
    if (device.name == name) return device.attachment;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

constexpr char kGpu0[] = "0000:1c:00.0";
constexpr char kGpu1[] = "0000:2e:00.0";
constexpr char kGpu4[] = "0000:9e:00.0";

TEST(Hardware, NumaNodesHaveTheirCoresAndMemory) {
  const std::vector<NumaNode> nodes = Make(Xml()).NumaNodes();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[1].index, 1);
  EXPECT_EQ(nodes[1].cores, 4);
  EXPECT_EQ(nodes[1].usable_cores, 4);
  EXPECT_EQ(nodes[1].memory_bytes, int64_t{1} << 40);
}

TEST(Hardware, DevicesHaveTheirBridgesFromTheRootDown) {
  const Hardware hardware = Make(Xml());
  const Attachment gpu = hardware.OfPci(kGpu0);
  EXPECT_EQ(gpu.pci, kGpu0);
  EXPECT_EQ(gpu.numa, 0);
  EXPECT_THAT(gpu.bridges,
              ElementsAre("0000:[18-1e]", "0000:18:01.0", "0000:19:00.0", "0000:1a:01.0"));
  EXPECT_EQ(Named(hardware.RdmaDevices(), "mlx5_7").numa, 1);
  EXPECT_THAT(NamesOf(hardware.Disks()),
              ElementsAre("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "sda"));
  EXPECT_EQ(hardware.NetworkInterfaces().size(), 10u);
}

TEST(Hardware, NearnessIsWhereTheWaysMeet) {
  const Hardware hardware = Make(Xml());
  const auto rdma = hardware.RdmaDevices();
  const auto net = hardware.NetworkInterfaces();
  const auto disks = hardware.Disks();
  const Attachment gpu0 = hardware.OfPci(kGpu0);
  EXPECT_EQ(NearnessOf(gpu0, Named(rdma, "mlx5_0")), Nearness::kSameSwitch);
  EXPECT_EQ(NearnessOf(gpu0, Named(disks, "nvme0n1")), Nearness::kSameSwitch);
  EXPECT_EQ(NearnessOf(hardware.OfPci(kGpu4), Named(rdma, "mlx5_4")), Nearness::kSameSwitch);
  EXPECT_EQ(NearnessOf(Named(net, "eth0"), Named(disks, "sda")), Nearness::kSameHostBridge);
  EXPECT_EQ(NearnessOf(gpu0, hardware.OfPci(kGpu1)), Nearness::kSameNuma);
  EXPECT_EQ(NearnessOf(gpu0, Named(net, "eth0")), Nearness::kSameNuma);
  EXPECT_EQ(NearnessOf(gpu0, hardware.OfPci(kGpu4)), Nearness::kAcrossNuma);
  EXPECT_EQ(NearnessOf(gpu0, Named(net, "eth1")), Nearness::kUnknown);
}

TEST(Hardware, InACpusetOnlySomeCoresAreUsableAndPlacesStay) {
  const std::string xml =
      absl::StrReplaceAll(Xml(), {{R"(allowed_cpuset="0x000000ff")", R"(allowed_cpuset="0x3")"},
                                  {R"(allowed_nodeset="0x00000003")", R"(allowed_nodeset="0x1")"}});
  const Hardware hardware = Make(xml);
  const std::vector<NumaNode> nodes = hardware.NumaNodes();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].cores, 4);
  EXPECT_EQ(nodes[0].usable_cores, 2);
  EXPECT_EQ(nodes[1].usable_cores, 0);
  EXPECT_EQ(hardware.OfPci(kGpu4).numa, 1);
}

TEST(Hardware, WithoutPciThereAreCoresAndNoDevices) {
  std::string xml = Xml();
  xml = xml.substr(0, xml.find("      <object type=\"Bridge\"")) + "    </object>\n" +
        "  </object>\n</topology>\n";
  const Hardware hardware = Make(xml);
  EXPECT_EQ(hardware.NumaNodes().at(0).cores, 4);
  EXPECT_THAT(hardware.NetworkInterfaces(), IsEmpty());
  const Attachment hidden = hardware.OfPci(kGpu0);
  EXPECT_EQ(hidden.pci, kGpu0);
  EXPECT_THAT(hidden.bridges, IsEmpty());
  EXPECT_EQ(NearnessOf(hidden, hidden), Nearness::kUnknown);
}

TEST(Hardware, WhatIsNoXmlOfHwlocIsRefused) {
  const absl::StatusOr<Hardware> hardware = Hardware::Load("<nonsense/>");
  ASSERT_FALSE(hardware.ok());
  EXPECT_THAT(std::string(hardware.status().message()), HasSubstr("cannot read this XML"));
}

TEST(Hardware, AProcessBoundToOneProcessorMayUseOneCore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Hardware hardware = Make("");
  int usable = 0;
  for (const NumaNode& node : hardware.NumaNodes()) usable += node.usable_cores;
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_TRUE(hardware.IsThisMachine());
  EXPECT_EQ(usable, 1);
}

}  // namespace
}  // namespace strata::topology
