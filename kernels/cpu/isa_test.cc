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

}  // namespace
}  // namespace strata::kernels
