// What an accelerator says of its attention.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "kernels/cuda/attention_library.h"
#include "worker/engine/cuda/cuda_accelerator.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

class FakeLibrary final : public kernels::cuda::AttentionLibrary {
 public:
  explicit FakeLibrary(std::string summary) : summary_(std::move(summary)) {}
  absl::StatusOr<const kernels::cuda::AttentionForwardPlan*> Forward(cudaStream_t,
                                                                     const kernels::AttentionShape&,
                                                                     kernels::NumberType) override {
    return absl::UnimplementedError("none");
  }
  absl::StatusOr<const kernels::cuda::AttentionBackwardPlan*> Backward(
      cudaStream_t, const kernels::AttentionShape&, kernels::NumberType) override {
    return absl::UnimplementedError("none");
  }
  std::string Summary() const override { return summary_; }

 private:
  const std::string summary_;
};

class AttentionRemarkTest : public standin::CudaTest {
 protected:
  void OnAccelerator(const std::function<void(CudaAccelerator&)>& body) {
    InEachOrder([&] {
      const auto made = CudaAccelerator::Create(0);
      ASSERT_TRUE(made.ok()) << made.status();
      body(**made);
    });
  }
};

TEST_F(AttentionRemarkTest, ADeviceTellsItsCapability) {
  OnAccelerator([](CudaAccelerator& made) { EXPECT_EQ(made.device().capability(), 90); });
}

TEST_F(AttentionRemarkTest, WithoutAChoice_IsNothing) {
  OnAccelerator([](CudaAccelerator& made) { EXPECT_EQ(made.Remark(), ""); });
}

TEST_F(AttentionRemarkTest, WithoutALibrary_IsWhyThereIsNone) {
  OnAccelerator([](CudaAccelerator& made) {
    made.set_why_no_attention_library("STRATA_GPU_CUDNN=0");
    EXPECT_EQ(made.Remark(), "attention by Strata's kernels (STRATA_GPU_CUDNN=0)");
  });
}

TEST_F(AttentionRemarkTest, OfALibraryThatWasAsked_IsWhatItSays) {
  OnAccelerator([](CudaAccelerator& made) {
    made.set_attention(std::make_unique<FakeLibrary>("attention by cuDNN 9"));
    EXPECT_EQ(made.Remark(), "attention by cuDNN 9");
  });
}

TEST_F(AttentionRemarkTest, OfALibraryThatWasAskedForNothing_IsThatOursCompute) {
  OnAccelerator([](CudaAccelerator& made) {
    made.set_attention(std::make_unique<FakeLibrary>(""));
    EXPECT_THAT(made.Remark(), HasSubstr("attention by Strata's kernels (the library has none of"));
  });
}

}  // namespace
}  // namespace strata::worker
