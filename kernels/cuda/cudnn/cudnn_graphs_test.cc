// What the real cuDNN says of our graphs, without a device: of one that it is told of.
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"

namespace strata::kernels::cuda {
namespace {

// Of an H200, as far as cuDNN asks.
constexpr char kDevice[] = R"({
  "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "multiProcessorCount": 132, "warpSize": 32, "totalGlobalMem": 150754820096,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "l2CacheSize": 62914560, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1})";

class CudnnGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = Describe({1, 64, 1, 1, 64});
    if (absl::IsNotFound(status)) GTEST_SKIP() << status;
  }
  static absl::Status Describe(const AttentionShape& shape, NumberType type = NumberType::kBF16) {
    return DescribeCudnnAttention(kDevice, 90, shape, type);
  }
};

TEST_F(CudnnGraphsTest, AreTakenOfEveryShapeThatIsAskedFor) {
  const AttentionShape shapes[] = {
      {.batch = 32, .sequence = 1024, .heads = 12, .kv_heads = 12, .head_size = 64},
      {.batch = 2, .sequence = 4096, .heads = 12, .kv_heads = 2, .head_size = 128},
      {.batch = 1, .sequence = 4096, .heads = 32, .kv_heads = 8, .head_size = 128},
      {.batch = 1, .sequence = 67, .heads = 6, .kv_heads = 1, .head_size = 8},
      {.batch = 3, .sequence = 33, .heads = 3, .kv_heads = 3, .head_size = 80}};
  for (const AttentionShape& shape : shapes) {
    for (const NumberType type : {NumberType::kBF16, NumberType::kF16}) {
      const absl::Status status = Describe(shape, type);
      EXPECT_TRUE(status.ok()) << status << ": sequences of " << shape.sequence;
    }
  }
}

TEST_F(CudnnGraphsTest, AreRefusedOfHeadsThatCudnnHasNoKernelsFor) {
  EXPECT_FALSE(Describe({1, 64, 1, 1, 100}).ok());
}

TEST_F(CudnnGraphsTest, AreRefusedOfSequencesThatNoPieceHasRoomFor) {
  EXPECT_FALSE(
      Describe({.batch = 1, .sequence = 1 << 16, .heads = 8, .kv_heads = 1, .head_size = 64}).ok());
}

TEST_F(CudnnGraphsTest, AreRefusedOfADeviceWithoutProperties) {
  EXPECT_FALSE(DescribeCudnnAttention("{}", 90, {1, 64, 1, 1, 64}, NumberType::kBF16).ok());
}

}  // namespace
}  // namespace strata::kernels::cuda
