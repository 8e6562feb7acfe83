// What tests of planted mistakes share.
#ifndef STRATA_KERNELS_CUDA_MISTAKES_TESTING_H_
#define STRATA_KERNELS_CUDA_MISTAKES_TESTING_H_

#include <vector>

#include "device/standin/standin.h"
#include "gmock/gmock.h"
#include "kernels/cuda/mistake.h"
#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {

using standin::Finding;
using standin::FindingKind;

class MistakesTest : public ::testing::Test {
 protected:
  // With the mistake planted, `run` leaves a finding of the kind in the kernel, and none without.
  template <typename Run>
  void Finds(Mistake mistake, FindingKind kind, const char* kernel, Run run) {
    using standin::ThreadOrder;
    using ::testing::AllOf, ::testing::Contains, ::testing::Field, ::testing::HasSubstr;
    for (const ThreadOrder order :
         {ThreadOrder::kAscending, ThreadOrder::kDescending, ThreadOrder::kRandom}) {
      SCOPED_TRACE(static_cast<int>(order));
      EXPECT_THAT(FindingsOf(Mistake::kNone, order, run), ::testing::IsEmpty());
      EXPECT_THAT(
          FindingsOf(mistake, order, run),
          Contains(AllOf(Field(&Finding::kind, kind), Field(&Finding::text, HasSubstr(kernel)))));
    }
  }

  template <typename T>
  DeviceArray<T> Array(int64_t count) {
    return DeviceArray<T>(testing::RandomOf<T>(count, 1), stream_);
  }

  cudaStream_t stream_ = nullptr;

 private:
  template <typename Run>
  std::vector<Finding> FindingsOf(Mistake mistake, standin::ThreadOrder order, Run run) {
    standin::Reset({.thread_order = order});
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    PlantMistake(mistake);
    run();
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    return standin::TakeFindings();
  }
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_MISTAKES_TESTING_H_
