// Agents of nodes with GPUs. These are a management library's that tells what a file says; trainers
// are real and compute on the CPU.
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/agent_fixture.h"

namespace strata::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GpuAgentTest : public AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    setenv("STRATA_FAKE_NVML", (folder_ / "gpus").c_str(), 1);
    agent_flags_ = {"--devices", "gpu", "--nvml",
                    (fs::current_path() / "topology/nvml/libfake_nvml.so").string()};
  }
  // Two GPUs, and more lines.
  void Say(const std::string& more) const {
    std::ofstream text(folder_ / "gpus.new");
    for (int i = 0; i < 2; ++i) {
      text << "gpu name=NVIDIA H100 80GB HBM3|capability=9.0|memory=85899345920|links=18|fabric=3"
              "|clique=7|temperature=61|uuid=GPU-"
           << i << "\n";
    }
    text << more;
    text.close();
    fs::rename(folder_ / "gpus.new", folder_ / "gpus");  // the agent reads meanwhile
  }
};

TEST_F(GpuAgentTest, AnXidEndsTheRankOnItsDeviceAfterTheControllerWasToldOfIt) {
  Say("");
  StartCluster({{"n0", {0, 1}}});
  const auto registered = controller_->WaitFor(RegisterOf("n0"), kWaitSeconds);
  ASSERT_TRUE(registered.has_value());
  const v1::Register& said = registered->message.register_();
  EXPECT_EQ(said.device(), "h100");
  EXPECT_EQ(said.devices(), 2);
  ASSERT_EQ(said.device_states_size(), 2);
  EXPECT_EQ(said.device_states(1).uuid(), "GPU-1");
  EXPECT_EQ(said.device_memory_bytes(), 85899345920);
  EXPECT_GT(said.host_memory_bytes(), 0);
  EXPECT_EQ(said.device_states(1).health(), v1::DeviceState::HEALTHY);
  EXPECT_THAT(said.locality().at("domain"), HasSubstr(".7"));

  RunEpoch(1, Spec(2, kLong, 0));
  const std::vector<pid_t> trainers = Trainers();
  ASSERT_EQ(trainers.size(), 2u);
  for (size_t rank = 0; rank < trainers.size(); ++rank) {
    EXPECT_THAT(Contents(absl::StrCat("/proc/", trainers[rank], "/environ")),
                HasSubstr(absl::StrCat("CUDA_VISIBLE_DEVICES=GPU-", rank)));
  }

  Say("xid 0 31\nxid 1 79\n");
  const v1::EpochEnded ended = EndOf("n0", 1);
  EXPECT_EQ(ended.cause(), "device_failed");
  EXPECT_EQ(ended.rank(), 1);
  EXPECT_THAT(ended.finished().message(),
              HasSubstr("rank 1: device 1 failed: Xid 79: it has fallen off the bus"));
  EXPECT_TRUE(Trainers().empty());
  bool told = false;
  for (const Said& each : controller_->All()) {
    if (each.message.has_ended()) break;
    for (const v1::DeviceState& state : each.message.heartbeat().device_states()) {
      told |= state.device() == 1 && state.health() == v1::DeviceState::UNHEALTHY;
      EXPECT_TRUE(state.device() == 1 || state.health() != v1::DeviceState::UNHEALTHY);
    }
  }
  EXPECT_TRUE(told);

  Prepare(2, Spec(2, 3, 0));  // a controller that has not heard of it
  const auto prepared = controller_->WaitFor(PreparedOf("n0", 2), kWaitSeconds);
  ASSERT_TRUE(prepared.has_value());
  EXPECT_THAT(prepared->message.prepared().problem(), HasSubstr("device 1 is unhealthy: Xid 79"));
}

TEST_F(GpuAgentTest, AnAgentDoesNotStartOnGpusThatStrataDoesNotRunOn) {
  std::ofstream(folder_ / "gpus") << "gpu name=Tesla V100-SXM2-32GB|capability=7.0\n";
  StartController();
  StartAgent("n0");
  int status = 0;
  waitpid(agents_["n0"], &status, 0);
  agents_.erase("n0");
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(controller_->count(), 0u);
}

}  // namespace
}  // namespace strata::integration
