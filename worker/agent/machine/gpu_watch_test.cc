#include "worker/agent/machine/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kGpu[] =
    "gpu name=NVIDIA H100 80GB HBM3|uuid=GPU-5e4f|bus=0x1c|capability=9.0|memory=85899345920"
    "|links=18|fabric=3|clique=7|temperature=61|uncorrected=0\n";

// The real way of loading NVML, with a library that reads its answers from a file.
class GpuWatchTest : public testing::Test {
 protected:
  GpuWatchTest() { setenv("STRATA_FAKE_NVML", file_.c_str(), 1); }
  void Say(const std::string& text) const {
    std::ofstream(file_ + ".new") << text;  // the watch reads meanwhile
    std::filesystem::rename(file_ + ".new", file_);
  }
  absl::StatusOr<std::unique_ptr<GpuWatch>> Open() {
    return GpuWatch::Open(std::filesystem::current_path() / "topology/nvml/libfake_nvml.so",
                          &clock_);
  }
  // As the agent's loop does.
  static void AwaitChange(GpuWatch& watch) {
    while (!watch.Advance()) std::this_thread::yield();
  }

  const std::string file_ = testing::TempDir() + "/gpus_of_watch";
  common::ManualClock clock_;
};

TEST_F(GpuWatchTest, TellsWhatTheNodeHas) {
  Say(absl::StrCat(kGpu, kGpu));
  const auto watch = Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ((*watch)->kind(), "h100");
  EXPECT_TRUE((*watch)->hears_xids());
  EXPECT_THAT((*watch)->fabric_clique(), HasSubstr(".7"));
  ASSERT_EQ((*watch)->states().size(), 2u);
  const v1::DeviceState& state = (*watch)->states()[1];
  EXPECT_EQ(state.device(), 1);
  EXPECT_EQ(state.health(), v1::DeviceState::HEALTHY);
  EXPECT_EQ(state.uuid(), "GPU-5e4f");
  EXPECT_EQ(state.compute_capability(), "9.0");
  EXPECT_EQ(state.memory_bytes(), 85899345920);
  EXPECT_EQ(state.nvlinks(), 18);
  EXPECT_EQ(state.temperature_celsius(), 61);
  EXPECT_FALSE(state.has_power_watts());
}

TEST_F(GpuWatchTest, AnXidIsHeardOfBeforeTheNextReading) {
  Say(kGpu);
  const auto watch = Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  Say(absl::StrCat(kGpu, "xid 0 31\nxid 0 79\n"));
  v1::DeviceState state;
  while (state.xids().size() < 2) {
    AwaitChange(**watch);
    state = (*watch)->states()[0];
  }
  EXPECT_EQ(state.health(), v1::DeviceState::UNHEALTHY);
  EXPECT_EQ(state.reason(), "Xid 79: it has fallen off the bus");
  EXPECT_EQ(state.xids().at(31), 1);
  EXPECT_EQ(state.xids().at(79), 1);
}

TEST_F(GpuWatchTest, ReadingsAreTakenInTheirTime) {
  Say(kGpu);
  const auto watch = Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  Say("gpu status=15\n");
  for (int i = 0; i < 5; ++i) EXPECT_FALSE((*watch)->Advance());
  clock_.Advance(GpuWatch::kReadSeconds);
  AwaitChange(**watch);
  const v1::DeviceState& state = (*watch)->states()[0];
  EXPECT_EQ(state.health(), v1::DeviceState::UNHEALTHY);
  EXPECT_THAT(state.reason(), HasSubstr("GPU 0 does not answer (GPU is lost)"));
  EXPECT_EQ(state.uuid(), "GPU-5e4f");
  EXPECT_FALSE(state.has_temperature_celsius());  // an old reading says nothing
}

TEST_F(GpuWatchTest, ADriverThatHangsMakesAllUnhealthyUntilItAnswers) {
  Say(absl::StrCat(kGpu, "hang\n"));  // in the wait for events
  const auto watch = Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_FALSE((*watch)->Advance());
  clock_.Advance(GpuWatch::kSilentSeconds);
  AwaitChange(**watch);
  EXPECT_EQ((*watch)->states()[0].health(), v1::DeviceState::UNHEALTHY);
  EXPECT_THAT((*watch)->states()[0].reason(), HasSubstr("has not answered for 60 seconds"));
  EXPECT_FALSE((*watch)->Advance());
  Say(kGpu);
  AwaitChange(**watch);
  EXPECT_EQ((*watch)->states()[0].health(), v1::DeviceState::HEALTHY);
  EXPECT_THAT((*watch)->states()[0].reason(), IsEmpty());
}

TEST_F(GpuWatchTest, AGpuThatDoesNotAnswerKeepsItsPlace) {
  Say(absl::StrCat("gpu handle=15\n", kGpu));
  const auto watch = Open();
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_EQ((*watch)->kind(), "h100");
  EXPECT_EQ((*watch)->states()[0].health(), v1::DeviceState::UNHEALTHY);
  EXPECT_EQ((*watch)->states()[1].health(), v1::DeviceState::HEALTHY);
}

TEST_F(GpuWatchTest, RefusesWhatStrataDoesNotRunOnAndSaysWhy) {
  Say(absl::StrCat(kGpu, "gpu name=Tesla V100-SXM2-32GB|capability=7.0\n"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
  EXPECT_THAT(Open().status().message(), HasSubstr("GPU 1 (Tesla V100-SXM2-32GB) is of compute"));
  Say("gpu name=Tesla T4|capability=7.5\n");
  EXPECT_THAT(Open().status().message(), HasSubstr("of compute capability 7.5"));
  Say("gpu name=NVIDIA H100|capability=9.0|mig=1\n");
  EXPECT_THAT(Open().status().message(), HasSubstr("nvidia-smi -i 0 -mig 0"));
  Say(absl::StrCat(kGpu, "gpu name=NVIDIA H200|capability=9.0\n"));
  EXPECT_THAT(Open().status().message(), HasSubstr("GPU 1 (NVIDIA H200) is of another kind"));
  Say("gpu handle=999\n");
  EXPECT_THAT(Open().status().message(), HasSubstr("no GPU answers"));
  Say("");
  EXPECT_THAT(Open().status().message(), HasSubstr("has no GPUs"));
  EXPECT_TRUE(absl::IsNotFound(GpuWatch::Open("libabsent.so", &clock_).status()));
}

}  // namespace
}  // namespace strata::worker
