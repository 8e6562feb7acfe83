#include "kernels/cuda/decided_copy.h"

#include <numeric>
#include <vector>

#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::kernels::cuda {
namespace {

using standin::DeviceArray;

class DecidedCopyTest : public standin::CudaTest {};

TEST_F(DecidedCopyTest, CopiesWhereTheScalarSaysSoAndTouchesNothingElse) {
  InEachOrder([&] {
    // Whole packets and not, more than a grid has threads, and places that are less aligned.
    for (const int64_t bytes : {0, 1, 16, 4100, 300'000}) {
      for (const int shift : {0, 1, 4}) {
        std::vector<uint8_t> values(bytes + shift + 16);
        std::iota(values.begin(), values.end(), 1);
        const std::vector<uint8_t> before(values.size(), 0xee);
        DeviceArray<uint8_t> from(values, stream());
        for (const double scalar : {0.0, 1.0, -2.0}) {
          for (const bool negated : {false, true}) {
            DeviceArray<double> decides(std::vector<double>{scalar}, stream());
            DeviceArray<uint8_t> to(before, stream());
            ASSERT_TRUE(DecidedCopy(stream(), decides.data(), negated, bytes, from.data() + shift,
                                    to.data() + shift)
                            .ok());
            std::vector<uint8_t> expected = before;
            if ((scalar != 0) != negated) {
              std::copy_n(values.begin() + shift, bytes, expected.begin() + shift);
            }
            EXPECT_EQ(to.ToHost(), expected) << bytes << " from " << shift << " on, " << scalar;
          }
        }
      }
    }
  });
}

TEST_F(DecidedCopyTest, ReadsAndWritesPinnedMemory) {
  InEachOrder([&] {
    int32_t* pinned = nullptr;
    STRATA_EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), 256));
    std::iota(pinned, pinned + 64, 0);
    DeviceArray<double> decides(std::vector<double>{1}, stream());
    DeviceArray<int32_t> there(32, stream());
    ASSERT_TRUE(DecidedCopy(stream(), decides.data(), false, 128, pinned, there.data()).ok());
    ASSERT_TRUE(DecidedCopy(stream(), decides.data(), false, 128, there.data(), pinned + 32).ok());
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream()));
    EXPECT_EQ(pinned[32 + 7], 7);
    STRATA_EXPECT_CUDA(cudaFreeHost(pinned));
  });
}

TEST_F(DecidedCopyTest, RefusesWhatCannotBe) {
  double* const scalar = nullptr;
  EXPECT_EQ(DecidedCopy(stream(), scalar, false, 4, nullptr, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::kernels::cuda
