// A calibration with two devices, on the stand-in, where nothing of it may race.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "worker/trainer/calibration/device_calibration_testing.h"

namespace strata::worker {
namespace {

class DevicePairTest : public standin::CudaTest {};

TEST_F(DevicePairTest, EveryOperationHasTimesAtEverySize_AndNothingRaces) {
  standin::Reset({.stream_order = standin::StreamOrder::kLatest, .device_count = 2});
  std::vector<std::string> told;
  const v1::DeviceProfile profile = CalibrateQuickly(told);
  EXPECT_THAT(told, testing::Contains("measuring two devices"));
  std::map<int64_t, std::set<std::string>> by_size;
  for (const v1::CommunicationTime& time : profile.communications()) {
    EXPECT_GT(time.seconds(), 0) << time.op();
    by_size[time.bytes()].insert(time.op());
  }
  EXPECT_EQ(by_size.size(), 3u);
  for (const auto& [bytes, operations] : by_size) EXPECT_EQ(operations.size(), 7u) << bytes;
  EXPECT_THAT(standin::TakeFindings(), testing::IsEmpty());
}

TEST_F(DevicePairTest, AnErrorOfTheDeviceEndsBothRanks) {
  standin::Reset({.device_count = 1});
  standin::FailCall("cudaEventElapsedTime", 100, cudaErrorLaunchFailure);
  const auto world = collectives::LoopbackWorld(2, 64, {});
  const DeviceCalibrateOptions options{.open = OpenCuda, .quick = true};
  absl::Status other;
  std::thread second([&] { other = CalibrateDevice(*world[1], options).status(); });
  const absl::Status status = CalibrateDevice(*world[0], options).status();
  world[0]->Cancel(status);
  world[1]->Cancel(status);  // as agents do
  second.join();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("cudaErrorLaunchFailure"));
  EXPECT_FALSE(other.ok());
}

}  // namespace
}  // namespace strata::worker
