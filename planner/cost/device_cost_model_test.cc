#include "planner/cost/device_cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/table.h"

namespace strata::planner {
namespace {

using program::CollectiveOp;
using program::Tier;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::DeviceProfile Device(const std::string& kind, bool standin = false) {
  v1::DeviceProfile device;
  device.set_name("NVIDIA " + kind);
  device.set_kind(kind);
  device.set_standin(standin);
  return device;
}

void AddCopy(int64_t bytes, double seconds, v1::CopyTime* time) {
  time->set_bytes(bytes);
  time->set_seconds(seconds);
}

program::Op Cube(int64_t size) { return ops::ToOp(ops::MatMul{.m = size, .n = size, .k = size}); }

void AddCube(int64_t size, double seconds, v1::OpTime* time) {
  const program::Op op = Cube(size);
  const auto cost = ops::EntryOf(op.kind).cost(op);
  ASSERT_TRUE(cost.ok()) << cost.status();
  time->set_kind(Name(op.kind));
  time->mutable_shape()->Assign(op.ints.begin(), op.ints.end());
  time->set_flops(cost->flops);
  time->set_bytes(cost->bytes);
  time->set_seconds(seconds);
}

// What is found of a kind: its index in the profile, or why there is none.
std::string Found(const v1::Profile& profile, const ProfiledDevice& wanted) {
  const auto found = FindDevice(profile, wanted);
  if (!found.ok()) return std::string(found.status().message());
  for (int i = 0; i < profile.devices_size(); ++i) {
    if (*found == &profile.devices(i)) return std::to_string(i);
  }
  return "another's";
}

TEST(FindDeviceTest, IsOfTheKindThatTheJobNames_AndOfTheOnlyOneForAny) {
  v1::Profile profile;
  profile.set_host("a");
  *profile.add_devices() = Device("h200");
  EXPECT_EQ(Found(profile, {"a", "gpu"}), "0");
  *profile.add_devices() = Device("l4");
  EXPECT_EQ(Found(profile, {"a", "l4"}), "1");
  EXPECT_EQ(
      Found(profile, {"a", "gpu"}),
      "the profile has devices of several kinds (h200, l4): resources.device says which a job "
      "computes on");
  EXPECT_EQ(Found(profile, {"a", "h100"}),
            "the profile has no measurement of kind h100, only of h200, l4: strata calibrate "
            "--device gpu measures this machine's");
  EXPECT_THAT(Found(profile, {"b", "l4"}), StartsWith("the profile is of host a, not of b"));
}

TEST(FindDeviceTest, TheStandInAnswersForNoCard_NorACardForTheStandIn) {
  v1::Profile profile;
  profile.set_host("a");
  *profile.add_devices() = Device("gpu", /*standin=*/true);
  EXPECT_THAT(Found(profile, {"a", "gpu"}),
              StartsWith("the profile has no measurement of a GPU, only of the stand-in of CUDA"));
  EXPECT_EQ(Found(profile, {"a", "h200", /*standin=*/true}), "0");
  profile.clear_devices();
  *profile.add_devices() = Device("h200");
  EXPECT_THAT(Found(profile, {"a", "h200", /*standin=*/true}),
              StartsWith("the profile has no measurement of the stand-in of CUDA, only of h200"));
}

TEST(DescribeTimesTest, SaysWhatWasNotMeasuredAndWhatMeansNothing) {
  v1::DeviceProfile device = Device("h200");
  EXPECT_EQ(DescribeTimes(device, 1),
            "the profile of this machine's NVIDIA h200 (strata calibrate --device gpu)");
  EXPECT_THAT(DescribeTimes(device, 2), HasSubstr("communication by assumed rates"));
  device.add_communications();
  EXPECT_THAT(DescribeTimes(device, 2), testing::Not(HasSubstr("assumed")));
  EXPECT_THAT(DescribeTimes(Device("gpu", true), 1), HasSubstr("whose times mean nothing"));
}

TEST(DeviceCostModelTest, EachWayHasItsOwnTime_AndIsStretchedByTheOther) {
  v1::DeviceProfile device = Device("h200");
  AddCopy(1000, 1, device.add_to_device());
  AddCopy(3000, 3, device.add_to_device());
  AddCopy(3000, 2, device.add_from_device());
  AddCopy(3000, 4.5, device.add_both_ways());
  const DeviceCostModel costs(device, {});
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kHost, Tier::kDevice, 2000), 2);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kDevice, Tier::kHost, 6000), 4);
  EXPECT_DOUBLE_EQ(costs.BothWays(Tier::kHost, Tier::kDevice), 1.5);
  EXPECT_DOUBLE_EQ(costs.BothWays(Tier::kDevice, Tier::kHost), 2.25);
  EXPECT_DOUBLE_EQ(costs.UpdateStretch(), 1);
}

TEST(DeviceCostModelTest, DisksAreThoseOfTheMachine_ElseAsCopies) {
  v1::DeviceProfile device = Device("h200");
  AddCopy(1000, 1, device.add_to_device());
  AddCopy(1000, 1, device.add_from_device());
  v1::DiskRate disks;
  disks.set_read(100);
  disks.set_write(50);
  disks.set_mixed(100);
  const DeviceCostModel costs(device, {.disks = &disks});
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kSsd, Tier::kHost, 1000), 10);
  EXPECT_DOUBLE_EQ(costs.TransferSeconds(Tier::kHost, Tier::kSsd, 1000), 20);
  EXPECT_DOUBLE_EQ(costs.BothWays(Tier::kSsd, Tier::kHost), 2);
  EXPECT_DOUBLE_EQ(DeviceCostModel(device, {}).TransferSeconds(Tier::kSsd, Tier::kHost, 1000), 1);
}

TEST(DeviceCostModelTest, KernelsAreTheDevices_AndUpdatesInHostMemoryTheProcessors) {
  v1::DeviceProfile device = Device("h200");
  AddCube(64, 1, device.add_ops());
  v1::RankProfile host;
  AddCube(64, 100, host.add_ops());
  const DeviceCostModel costs(device, {.host = &host});
  EXPECT_NEAR(costs.OpSeconds(Cube(64)), 1, 1e-3);
  EXPECT_NEAR(costs.HostOpSeconds(Cube(64)), 100, 1e-3);
  EXPECT_NEAR(DeviceCostModel(device, {}).HostOpSeconds(Cube(64)),
              program::RateCostModel({}).OpSeconds(Cube(64)), 1e-9);
}

TEST(DeviceCostModelTest, CommunicationHasUsualRatesWhereOneDeviceWasMeasured) {
  v1::DeviceProfile device = Device("h200");
  const program::Communication reduce{.op = CollectiveOp::kAllReduce, .bytes = 1000};
  const program::Rates usual{.link_bytes_per_second = 10, .link_latency_seconds = 0};
  const program::RateCostModel rates(usual);
  EXPECT_DOUBLE_EQ(
      DeviceCostModel(device, {.usual = usual}).CollectiveSeconds(reduce, {.ranks = 2}),
      rates.CollectiveSeconds(reduce, {.ranks = 2}));
  EXPECT_DOUBLE_EQ(DeviceCostModel(device, {.usual = usual}).MessageSeconds(reduce, {}),
                   rates.MessageSeconds(reduce, {}));
  for (const char* op : {"all-reduce", "send"}) {
    v1::CommunicationTime& time = *device.add_communications();
    time.set_op(op);
    time.set_bytes(1000);
    time.set_seconds(7);
  }
  EXPECT_DOUBLE_EQ(
      DeviceCostModel(device, {.usual = usual}).CollectiveSeconds(reduce, {.ranks = 2}), 7);
  EXPECT_DOUBLE_EQ(DeviceCostModel(device, {.usual = usual}).MessageSeconds(reduce, {}), 7);
}

}  // namespace
}  // namespace strata::planner
