// Both ranks of a device's calibration, as threads.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_TESTING_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_TESTING_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "collectives/nccl/nccl_communicator.h"
#include "common/status_macros.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/trainer/calibration/device_calibration.h"

namespace strata::worker {

// As the trainer's, without what it says of attention.
inline absl::StatusOr<std::unique_ptr<Accelerator>> OpenCuda(int ordinal,
                                                             collectives::Communicator* ranks) {
  std::unique_ptr<collectives::NcclCommunicator> nccl;
  if (ranks != nullptr) {
    ASSIGN_OR_RETURN(
        nccl, collectives::NcclCommunicator::Create({.rank = ranks->rank(),
                                                     .size = ranks->size(),
                                                     .device = ordinal,
                                                     .share = collectives::ShareOver(ranks)}));
  }
  ASSIGN_OR_RETURN(auto made, CudaAccelerator::Create(ordinal, std::move(nccl)));
  made->set_graph_actions(4);
  return made;
}

inline v1::DeviceProfile CalibrateQuickly(std::vector<std::string>& told) {
  const auto world = collectives::LoopbackWorld(2, 64, {});
  DeviceCalibrateOptions options{.open = OpenCuda, .quick = true};
  absl::StatusOr<v1::DeviceProfile> other = absl::UnknownError("not run");
  std::thread second([&] { other = CalibrateDevice(*world[1], options); });
  DeviceCalibrateOptions telling = options;
  telling.tell = [&](const std::string& text) { told.push_back(text); };
  const absl::StatusOr<v1::DeviceProfile> profile = CalibrateDevice(*world[0], telling);
  second.join();
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->ops_size(), 0);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return profile.value_or(v1::DeviceProfile());
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_TESTING_H_
