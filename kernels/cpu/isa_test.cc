#include "kernels/isa.h"

#include "gtest/gtest.h"

namespace strata::kernels {
namespace {

TEST(Isa, NameAndCheckAgreeWithWhatWasDetected) {
  const Isa isa = DetectIsa();
  EXPECT_EQ(CheckCpu().ok(), isa != Isa::kUnsupported);
  EXPECT_EQ(IsaName(), isa == Isa::kAvx512 ? "avx512" : isa == Isa::kAvx2 ? "avx2" : "unsupported");
}

TEST(Isa, ProbingAmxSurvivesAndRepeatsItsAnswer) {
  const bool works = AmxWorks();
  EXPECT_EQ(AmxWorks(), works);
  PrepareOneDnn();
  PrepareOneDnn();
}

TEST(Isa, ProbingBFloat16SurvivesAndRepeatsItsAnswer) {
  const bool works = BFloat16Works();
  EXPECT_EQ(BFloat16Works(), works);
  EXPECT_TRUE(DetectIsa() == Isa::kAvx512 || !works);
}

}  // namespace
}  // namespace strata::kernels
