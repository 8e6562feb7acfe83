// What an agent tells its controller of accelerators, and what it does when one fails.
#include "worker/agent/logic/agent_core.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A machine without processes, which keeps what is said.
class QuietHost final : public AgentHost {
 public:
  std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch&) override { return nullptr; }
  absl::Status SetMembership(const v1::AgentMembership&) override { return absl::OkStatus(); }
  void Send(uint64_t, const v1::AgentMessage& message) override { said.push_back(message); }
  void EndSession(uint64_t) override {}
  void Log(const std::string& text) override { logged.push_back(text); }

  std::vector<v1::AgentMessage> said;
  std::vector<std::string> logged;
};

v1::DeviceState Device(int index, v1::DeviceState::Health health, const std::string& reason) {
  v1::DeviceState state;
  state.set_device(index);
  state.set_health(health);
  state.set_reason(reason);
  state.set_product("NVIDIA H100 80GB HBM3");
  state.set_uuid("GPU-5e4f");
  state.set_temperature_celsius(61);
  return state;
}

class AgentCoreTest : public ::testing::Test {
 protected:
  static AgentCore::Options Options() {
    AgentCore::Options options;
    options.node = "n0";
    options.device = "h100";
    options.devices = 2;
    options.host_memory_bytes = int64_t{512} << 30;
    return options;
  }
  void Connect() {
    core_.OnLinkUp(1);
    v1::ControllerMessage welcome;
    welcome.set_controller_term(1);
    *welcome.mutable_welcome()->mutable_protocol() = protocol::OwnRange();
    welcome.mutable_welcome()->set_cluster("c");
    core_.OnMessage(1, welcome);
    core_.Advance();
  }
  // Of the heartbeats since the last call: those that tell of devices.
  std::vector<v1::Heartbeat> Told() {
    std::vector<v1::Heartbeat> told;
    for (const v1::AgentMessage& message : std::exchange(host_.said, {})) {
      if (message.heartbeat().device_states_size() > 0) told.push_back(message.heartbeat());
    }
    return told;
  }

  common::ManualClock clock_;
  QuietHost host_;
  AgentCore core_{Options(), {}, &host_, &clock_};
};

constexpr auto kHealthy = v1::DeviceState::HEALTHY;
constexpr auto kUnhealthy = v1::DeviceState::UNHEALTHY;

TEST_F(AgentCoreTest, RegisterTellsWhatItsDevicesAre) {
  core_.OnDevices({Device(0, kHealthy, ""), Device(1, kUnhealthy, "Xid 79")});
  EXPECT_THAT(host_.said, IsEmpty());  // nobody is there yet
  core_.OnLinkUp(1);
  const v1::Register& said = host_.said.at(0).register_();
  EXPECT_EQ(said.device(), "h100");
  EXPECT_EQ(said.devices(), 2);
  ASSERT_EQ(said.device_states_size(), 2);
  EXPECT_EQ(said.device_states(0).uuid(), "GPU-5e4f");
  EXPECT_EQ(said.device_states(1).health(), kUnhealthy);
}

TEST_F(AgentCoreTest, RegisterTellsWhatRanksMayUse_OfDevicesTheLeastThatIsKnown) {
  std::vector<v1::DeviceState> devices;
  for (const int64_t bytes : {int64_t{80} << 30, int64_t{0}, int64_t{79} << 30}) {
    devices.push_back(Device(static_cast<int>(devices.size()), kHealthy, ""));
    devices.back().set_memory_bytes(bytes);
  }
  core_.OnDevices(devices);
  core_.OnLinkUp(1);
  EXPECT_EQ(host_.said.at(0).register_().device_memory_bytes(), int64_t{79} << 30);
  EXPECT_EQ(host_.said.at(0).register_().host_memory_bytes(), int64_t{512} << 30);
  core_.OnDevices({});
  core_.OnLinkUp(2);
  EXPECT_EQ(host_.said.back().register_().device_memory_bytes(), 0);  // not known
}

TEST_F(AgentCoreTest, HeartbeatsTellOfDevicesOnceWhenThereIsNews) {
  core_.OnDevices({Device(0, kHealthy, "")});
  Connect();
  EXPECT_THAT(Told(), IsEmpty());
  core_.OnDevices({Device(0, kUnhealthy, "Xid 79: it has fallen off the bus")});
  const std::vector<v1::Heartbeat> told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].device_states(0).reason(), "Xid 79: it has fallen off the bus");
  EXPECT_EQ(told[0].device_states(0).temperature_celsius(), 61);
  EXPECT_EQ(told[0].device_states(0).uuid(), "");  // Register told it
  EXPECT_THAT(host_.logged, Contains("device 0: Xid 79: it has fallen off the bus"));
  clock_.Advance(5);
  core_.Advance();
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(AgentCoreTest, NoRankIsStartedOnAnUnhealthyDevice) {
  core_.OnDevices({Device(0, kHealthy, ""), Device(1, kUnhealthy, "Xid 79")});
  Connect();
  v1::ControllerMessage message;
  message.set_controller_term(1);
  v1::PrepareEpoch& prepare = *message.mutable_prepare();
  prepare.mutable_epoch()->set_job("jobs/a");
  prepare.mutable_epoch()->set_epoch(1);
  prepare.set_directory("/d");
  prepare.set_ranks(1);
  prepare.add_own(0);
  prepare.add_devices(1);
  core_.OnMessage(1, message);
  ASSERT_TRUE(host_.said.back().has_prepared());
  EXPECT_THAT(host_.said.back().prepared().problem(), HasSubstr("device 1 is unhealthy: Xid 79"));
  EXPECT_FALSE(host_.said.back().prepared().permanent());
}

}  // namespace
}  // namespace strata::worker
