#include "kernels/cuda/cudnn/cudnn_library.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::kernels::cuda {
namespace {

using ::testing::HasSubstr;

TEST(CudnnVersion, WithoutALibrary_SaysWhatTheLoaderSays) {
  const absl::Status status = CudnnVersion("libcudnn_of_nobody.so.9").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuDNN: libcudnn_of_nobody.so.9"));
}

TEST(CudnnVersion, OfALibraryThatLacksWhatCudnnHas_IsAnErrorAndNotTheEnd) {
  EXPECT_TRUE(absl::IsNotFound(CudnnVersion("libm.so.6").status()));
}

}  // namespace
}  // namespace strata::kernels::cuda
