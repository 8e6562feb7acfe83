#include "worker/trainer/step_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/host_name.h"
#include "kernels/isa.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::TrainerTask MeasuredTask() {
  v1::TrainerTask task;
  task.set_ranks(1);
  task.set_threads(2);
  v1::Profile& profile = *task.mutable_profile();
  profile.set_host(common::HostName());
  profile.set_isa(kernels::IsaName());
  v1::RankProfile& ranks = *profile.add_ranks();
  ranks.set_ranks(1);
  ranks.set_threads(2);
  return task;
}

planner::StreamChoice Choice() {
  return {.layers = 14,
          .chosen = {.streaming = {.resident = 2, .moved = 1},
                     .seconds = 1.03,
                     .stall_seconds = 0.05,
                     .device_bytes = 86 << 20},
          .most = {.streaming = {.resident = program::Streaming::kAllButOne},
                   .seconds = 1,
                   .device_bytes = 196 << 20}};
}

std::string Told(const v1::TrainerTask& task, const planner::StreamChoice& choice) {
  v1::JobPlan plan;
  TellStreaming(task, choice, plan);
  EXPECT_EQ(plan.notices_size(), 1);
  return plan.notices(0).text();
}

TEST(BestCostsOf, AreTheProfilesWhereItHoldsAndSaysWhyWhereNot) {
  v1::TrainerTask task = MeasuredTask();
  EXPECT_THAT(BestCostsOf(task).name, StartsWith("the profile of this machine"));
  task.set_threads(3);
  EXPECT_THAT(BestCostsOf(task).name, HasSubstr("no measurement of 1 ranks x 3 threads"));
  task = MeasuredTask();
  task.mutable_job()->mutable_resources()->set_device("gpu");
  EXPECT_THAT(BestCostsOf(task).name,
              StartsWith("assumed rates: the profile has no measurement of a GPU"));
  task.mutable_job()->mutable_resources()->set_device("h100");
  EXPECT_EQ(BestCostsOf(task).name, "the catalog's figures of H100");
  EXPECT_THAT(BestCostsOf({}).name, HasSubstr("has not been measured (strata calibrate)"));
}

TEST(BestCostsOf, AJobOnAGpuHasTheProfileOfItsKind_WhateverItsThreads) {
  v1::TrainerTask task = MeasuredTask();
  task.set_threads(3);
  v1::DeviceProfile& device = *task.mutable_profile()->add_devices();
  device.set_name("NVIDIA H100");
  device.set_kind("h100");
  for (const char* asked : {"h100", "gpu"}) {
    task.mutable_job()->mutable_resources()->set_device(asked);
    EXPECT_EQ(BestCostsOf(task).name,
              "the profile of this machine's NVIDIA H100 (strata calibrate --device gpu)");
  }
  task.set_ranks(2);
  EXPECT_THAT(BestCostsOf(task).name, HasSubstr("communication by assumed rates"));
  device.set_standin(true);
  EXPECT_THAT(BestCostsOf(task).name, StartsWith("assumed rates: the profile has no measurement"));
  task.clear_profile();
  EXPECT_THAT(BestCostsOf(task).name, HasSubstr("has not been measured"));
  task.mutable_job()->mutable_resources()->set_device("h200");
  EXPECT_EQ(BestCostsOf(task).name, "the catalog's figures of H200");
}

TEST(TellStreaming, SaysWhatWasChosenAndWhy) {
  EXPECT_EQ(Told(MeasuredTask(), Choice()),
            "memory.stream: auto is {resident: 2, moved: 1} of 14 layers: the fewest resident "
            "layers that take at most 5 % longer than all but one (1 s a step and 196.00 MiB); "
            "1.03 s a step and 86.00 MiB of the device are predicted, 50 ms of the step waiting "
            "for other tiers, by the profile of this machine (strata calibrate)");
  planner::StreamChoice limited = Choice();
  limited.limited = true;
  EXPECT_THAT(Told({}, limited), HasSubstr("as much as memory.device allows, 86.00 MiB"));
  EXPECT_THAT(Told({}, Choice()), HasSubstr("by assumed rates"));
  planner::StreamChoice all = Choice();
  all.chosen = all.most;
  EXPECT_THAT(Told({}, all), HasSubstr("{resident: 13, moved: 1} of 14 layers: fewer resident"));
  limited.chosen.streaming.resident = program::Streaming::kOneUse;
  EXPECT_THAT(Told({}, limited), HasSubstr("is what one use at a time needs: as much"));
}

}  // namespace
}  // namespace strata::worker
