#include "topology/nvml/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace strata::topology {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

constexpr char kH100[] =
    "gpu name=NVIDIA H100 80GB HBM3|uuid=GPU-5e4f|bus=0x1c|capability=9.0|memory=85899345920"
    "|used=1073741824|mig=0|links=17|fabric=3|clique=7|utilization=93|temperature=61|power=641500"
    "|clock=1980|corrected=4|uncorrected=1|pending=1|failed=0|throttle=0x4";

// The real way of loading it, with a library that reads its answers from a file.
class NvmlTest : public testing::Test {
 protected:
  void SetUp() override { setenv("STRATA_FAKE_NVML", File().c_str(), 1); }
  static fs::path File() { return fs::path(testing::TempDir()) / "gpus"; }
  static void Say(const std::string& text) { std::ofstream(File()) << text; }
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const char* library = "libfake_nvml.so") {
    return Nvml::Open(fs::current_path() / "topology/nvml" / library);
  }
};

TEST_F(NvmlTest, TellsWhatAGpuIs) {
  Say(absl::StrCat("driver 580.82.07\ncuda 13000\n", kH100, "\n"));
  const auto nvml = Open();
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->DriverVersion(), "580.82.07");
  EXPECT_EQ((*nvml)->CudaVersion(), 13000);
  ASSERT_EQ((*nvml)->count(), 1);
  const auto gpu = (*nvml)->Identify(0);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_EQ(gpu->product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu->kind, "h100");
  EXPECT_EQ(gpu->uuid, "GPU-5e4f");
  EXPECT_EQ(gpu->pci, "0000:1c:00.0");
  EXPECT_EQ(gpu->capability_major, 9);
  EXPECT_EQ(gpu->capability_minor, 0);
  EXPECT_EQ(gpu->memory_bytes, 85899345920);
  EXPECT_FALSE(gpu->mig);
  EXPECT_EQ(gpu->nvlinks, 18);
  EXPECT_EQ(gpu->active_nvlinks, 17);
  EXPECT_EQ(gpu->fabric_clique, "00010203-0405-0607-0809-0a0b0c0d0e0f.7");
}

TEST_F(NvmlTest, ReadsHowAGpuIs) {
  Say(kH100);
  const auto nvml = Open();
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  const auto reading = (*nvml)->Read(0);
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_THAT(reading->utilization, Optional(0.93));
  EXPECT_THAT(reading->memory_used_bytes, Optional(1073741824));
  EXPECT_THAT(reading->temperature_celsius, Optional(61));
  EXPECT_THAT(reading->power_watts, Optional(641.5));
  EXPECT_THAT(reading->sm_clock_hertz, Optional(1.98e9));
  EXPECT_THAT(reading->ecc_corrected, Optional(4));
  EXPECT_THAT(reading->ecc_uncorrected, Optional(1));
  EXPECT_THAT(reading->remap_pending, Optional(true));
  EXPECT_THAT(reading->remap_failed, Optional(false));
  EXPECT_THAT(reading->throttled, Optional(false));  // at its power limit, as a busy one is
}

TEST_F(NvmlTest, AFactThatItsDriverDoesNotTellCostsThatFactAlone) {
  Say("gpu name=NVIDIA GeForce RTX 4090|temperature=50|throttle=0x20\n");
  auto nvml = Open();
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->Identify(0)->kind, "rtx-4090");
  EXPECT_EQ((*nvml)->Identify(0)->nvlinks, 0);
  auto reading = (*nvml)->Read(0);
  EXPECT_THAT(reading->temperature_celsius, Optional(50));
  EXPECT_THAT(reading->throttled, Optional(true));
  EXPECT_EQ(reading->ecc_uncorrected, std::nullopt);

  Say(kH100);
  nvml = Open("libfake_nvml_old.so");
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->CudaVersion(), 0);
  EXPECT_EQ((*nvml)->Identify(0)->active_nvlinks, 17);
  EXPECT_THAT((*nvml)->Identify(0)->fabric_clique, IsEmpty());
  reading = (*nvml)->Read(0);
  EXPECT_THAT(reading->power_watts, Optional(641.5));
  EXPECT_EQ(reading->remap_pending, std::nullopt);
  EXPECT_EQ(reading->throttled, std::nullopt);
  EXPECT_FALSE((*nvml)->BeginXids());
  EXPECT_EQ((*nvml)->WaitForXid(0.01), std::nullopt);
}

TEST_F(NvmlTest, TellsALostGpuFromOneThatDoesNotAnswer) {
  Say("gpu name=H100|handle=999\ngpu name=H100|temperature=40\n");
  const auto nvml = Open();
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_TRUE(absl::IsUnavailable((*nvml)->Identify(0).status()));
  EXPECT_TRUE(absl::IsUnavailable((*nvml)->Read(0).status()));
  EXPECT_TRUE((*nvml)->Read(1).ok());
  Say("gpu name=H100\ngpu name=H100|status=999\n");
  EXPECT_TRUE(absl::IsUnavailable((*nvml)->Read(1).status()));
  Say("gpu name=H100\ngpu name=H100|status=15\n");
  EXPECT_TRUE(absl::IsDataLoss((*nvml)->Read(1).status()));
  EXPECT_THAT((*nvml)->Read(1).status().message(),
              HasSubstr("GPU 1 does not answer (GPU is lost)"));
  EXPECT_TRUE(absl::IsDataLoss((*nvml)->Identify(1).status()));
}

TEST_F(NvmlTest, TellsEachXidOnceWithItsDevice) {
  Say("gpu name=H100\ngpu name=H100\n");
  const auto nvml = Open();
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_TRUE((*nvml)->BeginXids());
  EXPECT_EQ((*nvml)->WaitForXid(0.01), std::nullopt);
  Say("gpu name=H100\ngpu name=H100\nxid 1 79\nxid 0 31\n");
  const auto first = (*nvml)->WaitForXid(10);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->device, 1);
  EXPECT_EQ(first->xid, 79);
  EXPECT_EQ((*nvml)->WaitForXid(10)->xid, 31);
  EXPECT_EQ((*nvml)->WaitForXid(0.01), std::nullopt);
}

TEST_F(NvmlTest, SaysWhyItDoesNotWork) {
  EXPECT_TRUE(absl::IsNotFound(Nvml::Open("libabsent.so").status()));
  EXPECT_THAT(Nvml::Open("libm.so.6").status().message(), HasSubstr("lacks functions"));
  Say("init 9\n");
  const absl::Status unloaded = Open().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unloaded));
  EXPECT_THAT(unloaded.message(), HasSubstr("(Driver Not Loaded): is the driver's kernel module"));
  Say("init 18\n");
  EXPECT_THAT(Open().status().message(), HasSubstr("different drivers: reboot"));
}

}  // namespace
}  // namespace strata::topology
