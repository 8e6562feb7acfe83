// What the tests of CUDA kernels share: typed tests over the three types of numbers, and
// tolerances.
#ifndef STRATA_KERNELS_CUDA_TESTING_H_
#define STRATA_KERNELS_CUDA_TESTING_H_

#include <vector>

#include "device/standin/testing/cuda_test.h"
#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"

#define STRATA_EXPECT_OK(expression)                        \
  do {                                                      \
    const absl::Status status_to_expect = (expression);     \
    EXPECT_TRUE(status_to_expect.ok()) << status_to_expect; \
  } while (false)

namespace strata::kernels::cuda {

using standin::DeviceArray;
using testing::Doubles;
using testing::Floats;

template <typename T>
class TypedCudaTest : public standin::CudaTest {};
using NumberTypes = ::testing::Types<float, BFloat16, Float16>;

// f32: 1e-5 of the largest value; 16 bits: one rounding besides, which is 1/256 of each in bf16.
inline constexpr double kTolerance = 1e-5;

template <typename T>
void ExpectNumbers(const std::vector<T>& actual, const Doubles& expected) {
  testing::ExpectRounded<T>(testing::Back(actual), expected, kTolerance);
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_TESTING_H_
