// With CUDA's own libraries on a machine without a GPU: every way in fails with what is missing and
// what to do. With a GPU there is nothing to see.
#include <string>

#include "absl/status/status.h"
#include "collectives/nccl/nccl_communicator.h"
#include "device/cuda/cuda_device.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/rmsnorm.h"
#include "worker/engine/cuda/cuda_accelerator.h"

namespace strata {
namespace {

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;

// What CUDA says without a driver, and without a device.
const auto kNothingHere = AnyOf(HasSubstr("driver"), HasSubstr("no CUDA-capable device"));

class NoDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
      GTEST_SKIP() << "there are " << count << " GPUs here";
    }
  }
};

TEST_F(NoDeviceTest, ADeviceAndAnAcceleratorTellWhatToDo) {
  for (const absl::Status& status :
       {device::CudaDevice::Create(0).status(), worker::CudaAccelerator::Create(0).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("opening CUDA device 0: cudaError"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("nvidia-smi"));
  }
}

TEST_F(NoDeviceTest, ProductsAndCommunicatorsAreRefused) {
  const absl::Status products = kernels::cuda::MatmulLibrary::Create().status();
  EXPECT_EQ(products.code(), absl::StatusCode::kFailedPrecondition) << products;
  EXPECT_THAT(std::string(products.message()), HasSubstr("matrix products need a CUDA device"));
  const absl::Status ranks = collectives::NcclCommunicator::Create({}).status();
  EXPECT_FALSE(ranks.ok());
  EXPECT_THAT(std::string(ranks.message()), kNothingHere);
}

// Twice: the first error does not hide in the second.
TEST_F(NoDeviceTest, ALaunchFailsAndSaysOfWhat) {
  float numbers[8] = {};
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = kernels::cuda::RmsNormForward<float>(
        nullptr, {.rows = 1, .channels = 4}, 1e-5F, numbers, numbers, numbers, numbers + 4);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), ContainsRegex("^RMS norm: "));
    EXPECT_THAT(std::string(status.message()), kNothingHere);
  }
}

}  // namespace
}  // namespace strata
