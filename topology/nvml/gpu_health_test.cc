#include "topology/nvml/gpu_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/nvml/xid.h"

namespace strata::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using Level = GpuHealth::Level;

GpuReading Healthy() {
  return {.ecc_uncorrected = 0, .remap_pending = false, .remap_failed = false, .throttled = false};
}

TEST(GpuHealth, IsHealthyBeforeAnythingWasHeardAndWhenAllIsWell) {
  GpuHealth health;
  EXPECT_EQ(health.level(), Level::kHealthy);
  health.OnReading(Healthy());
  health.OnReading(GpuReading());  // a driver that tells nothing of it
  EXPECT_EQ(health.level(), Level::kHealthy);
  EXPECT_THAT(health.reason(), IsEmpty());
}

TEST(GpuHealth, AnXidThatAsksForAResetStays) {
  GpuHealth health;
  health.OnXid(79);
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_EQ(health.reason(), "Xid 79: it has fallen off the bus");
  health.OnXid(95);
  health.OnReading(Healthy());
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_EQ(health.reason(), "Xid 79: it has fallen off the bus");  // what came first
}

TEST(GpuHealth, XidsOfProcessesAreCountedAndNothingElse) {
  GpuHealth health;
  for (const int xid : {13, 31, 43, 45, 31, 63, 9999}) health.OnXid(xid);
  EXPECT_EQ(health.level(), Level::kHealthy);
  EXPECT_EQ(health.xids().at(31), 2);
  EXPECT_EQ(health.xids().size(), 6u);
}

TEST(GpuHealth, AContainedErrorDegrades) {
  GpuHealth health;
  health.OnXid(94);
  EXPECT_EQ(health.level(), Level::kDegraded);
  EXPECT_THAT(health.reason(), HasSubstr("Xid 94"));
  health.OnXid(48);
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_THAT(health.reason(), AllOf(HasSubstr("Xid 48"), HasSubstr("Xid 94")));
}

TEST(GpuHealth, UncorrectableErrorsDegradeAndIfTheyGrowTheyFail) {
  GpuHealth health;
  GpuReading reading = Healthy();
  reading.ecc_uncorrected = 3;  // from before
  health.OnReading(reading);
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kDegraded);
  reading.ecc_uncorrected = 5;
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kDegraded);
  reading.ecc_uncorrected = 6;
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_EQ(health.reason(), "6 uncorrectable memory errors since its driver began, and they grow");
}

TEST(GpuHealth, RowsThatCouldNotBeReplacedFailAndThoseThatWaitDoNot) {
  GpuHealth health;
  GpuReading reading = Healthy();
  reading.remap_pending = true;
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kDegraded);
  reading.remap_failed = true;
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_THAT(health.reason(), HasSubstr("exchange it"));
}

TEST(GpuHealth, ThrottlingWarnsForAsLongAsItLasts) {
  GpuHealth health;
  GpuReading reading = Healthy();
  reading.throttled = true;
  health.OnReading(reading);
  EXPECT_EQ(health.level(), Level::kDegraded);
  health.OnReading(Healthy());
  EXPECT_EQ(health.level(), Level::kHealthy);
}

TEST(GpuHealth, ALostDeviceStaysLostAndASilentOneMayComeBack) {
  GpuHealth health;
  health.OnReading(absl::UnavailableError("GPU 1 does not answer (Unknown Error)"));
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  health.OnReading(Healthy());
  EXPECT_EQ(health.level(), Level::kHealthy);
  health.OnReading(absl::DataLossError("GPU 1 does not answer (GPU is lost)"));
  health.OnReading(Healthy());
  EXPECT_EQ(health.level(), Level::kUnhealthy);
  EXPECT_THAT(health.reason(), HasSubstr("GPU is lost"));
}

TEST(Xid, HasTheEffectsOfNvidiasCatalog) {
  for (const int reset : {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158}) {
    EXPECT_EQ(MeaningOf(reset).effect, XidEffect::kFails) << reset;
  }
  for (const int restart : {8, 11, 13, 25, 31, 32, 39, 40, 41, 69, 70, 80, 126, 135}) {
    EXPECT_EQ(MeaningOf(restart).effect, XidEffect::kEndsRank) << restart;
  }
  for (const int look : {54, 92, 94, 144, 150, 156, 157}) {
    EXPECT_EQ(MeaningOf(look).effect, XidEffect::kDegrades) << look;
  }
  for (const int ignored : {0, 1, 43, 45, 63, 106, 137, 154, 155, 1000}) {
    EXPECT_EQ(MeaningOf(ignored).effect, XidEffect::kNone) << ignored;
  }
}

GpuIdentity Gpu(const std::string& product, int major, int minor) {
  return {.product = product, .capability_major = major, .capability_minor = minor};
}

TEST(CheckUsable, TakesWhatKernelsAreCompiledFor) {
  for (const GpuIdentity& gpu :
       {Gpu("NVIDIA A100", 8, 0), Gpu("NVIDIA H100", 9, 0), Gpu("NVIDIA B200", 10, 0),
        Gpu("its driver tells nothing", 0, 0)}) {
    EXPECT_TRUE(CheckUsable(gpu, 0).ok()) << gpu.product;
  }
}

TEST(CheckUsable, RefusesWhatIsTooOldAndSaysWhy) {
  EXPECT_THAT(CheckUsable(Gpu("Tesla V100-SXM2-32GB", 7, 0), 3).message(),
              AllOf(HasSubstr("GPU 3 (Tesla V100-SXM2-32GB) is of compute capability 7.0"),
                    HasSubstr("CUDA 13 knows none older than 7.5")));
  EXPECT_THAT(CheckUsable(Gpu("Tesla T4", 7, 5), 0).message(),
              AllOf(HasSubstr("8.0 (A100) and newer"), testing::Not(HasSubstr("CUDA 13"))));
}

TEST(CheckUsable, RefusesInstancesAndSaysWhatToDo) {
  GpuIdentity gpu = Gpu("NVIDIA H100", 9, 0);
  gpu.mig = true;
  EXPECT_THAT(CheckUsable(gpu, 2).message(), HasSubstr("nvidia-smi -i 2 -mig 0"));
}

}  // namespace
}  // namespace strata::topology
