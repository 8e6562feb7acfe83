#include "client/doctor/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace strata::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using topology::GpuIdentity;
using topology::GpuReading;

Gpu H100() {
  GpuIdentity identity;
  identity.product = "NVIDIA H100 80GB HBM3";
  identity.pci = "0000:1c:00.0";
  identity.capability_major = 9;
  identity.memory_bytes = int64_t{80} << 30;
  identity.nvlinks = identity.active_nvlinks = 18;
  return {identity, GpuReading()};
}

GpuFacts HealthyGpus() {
  GpuFacts facts;
  facts.driver = "580.82.07";
  facts.cuda = 13000;
  facts.gpus = {H100(), H100()};
  facts.libraries = {{"cuBLASLt", "libcublasLt.so.13", "", "13.1.0"},
                     {"NCCL", "libnccl.so.2", "ranks on several GPUs need it", "2.28.9"}};
  return facts;
}

// The one finding that is not well.
Finding Wrong(const GpuFacts& facts) {
  Finding wrong;
  int found = 0;
  for (const Finding& finding : JudgeGpus(facts)) {
    EXPECT_EQ(finding.health == Health::kOk, finding.advice.empty()) << finding.name;
    EXPECT_FALSE(finding.value.empty()) << finding.name;
    if (finding.health == Health::kOk) continue;
    wrong = finding;
    ++found;
  }
  EXPECT_EQ(found, 1);
  return wrong;
}

TEST(DoctorGpus, AHealthyMachineHasNothingToDo) {
  const std::vector<Finding> findings = JudgeGpus(HealthyGpus());
  ASSERT_EQ(findings.size(), 4u);
  for (const Finding& finding : findings) EXPECT_EQ(finding.health, Health::kOk) << finding.name;
  EXPECT_EQ(findings[0].value, "580.82.07, for CUDA up to 13.0");
  EXPECT_EQ(findings[1].value,
            "NVIDIA H100 80GB HBM3 at 0000:1c:00.0, 80.00 GiB, 18 of 18 NVLinks up");
  EXPECT_EQ(findings[3].value, "cuBLASLt 13.1.0, NCCL 2.28.9");
}

TEST(DoctorGpus, OfAMachineWithoutADriverOneLineSaysSo) {
  GpuFacts facts;
  facts.nvml = absl::NotFoundError("libnvidia-ml.so.1: cannot open shared object file");
  const std::vector<Finding> findings = JudgeGpus(facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::kOk);
  EXPECT_EQ(findings[0].value, "no NVIDIA driver: jobs run on the CPU");
}

TEST(DoctorGpus, EachLackIsFoundAlone) {
  GpuFacts facts = HealthyGpus();
  facts.cuda = 12080;
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("a driver of 580 or newer"));
  facts = HealthyGpus();
  facts.gpus.clear();
  EXPECT_EQ(Wrong(facts).value, "none, though there is a driver");
  facts = HealthyGpus();
  facts.gpus[1].identity = absl::DataLossError("GPU 1 does not answer (GPU is lost)");
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("dmesg"));
  facts = HealthyGpus();
  facts.gpus[1].identity->capability_major = 7;
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("CUDA 13 knows none older"));
  facts = HealthyGpus();
  facts.gpus[0].identity->mig = true;
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("-mig 0"));
  facts = HealthyGpus();
  facts.gpus[0].reading->remap_failed = true;
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("exchange it"));
  facts = HealthyGpus();
  facts.gpus[0].identity->active_nvlinks = 0;
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("fabric manager"));
  facts = HealthyGpus();
  facts.libraries[1].version.reset();
  EXPECT_EQ(Wrong(facts).value, "cuBLASLt 13.1.0, NCCL missing");
  EXPECT_THAT(Wrong(facts).advice, HasSubstr("libnccl.so.2 (ranks on several GPUs need it)"));
  facts = HealthyGpus();
  facts.nvml = absl::FailedPreconditionError("NVML does not start");
  EXPECT_EQ(Wrong(facts).advice, "NVML does not start");
}

TEST(DoctorGpus, ReadsDriverDevicesAndLibraries) {
  const std::string file = testing::TempDir() + "/gpus_of_doctor";
  std::ofstream(file) << "driver 570.00\ncuda 12080\n"
                         "gpu name=NVIDIA H100|capability=9.0|links=18|temperature=40\n";
  setenv("STRATA_FAKE_NVML", file.c_str(), 1);
  const GpuFacts facts =
      ReadGpus(std::filesystem::current_path() / "topology/nvml/libfake_nvml.so");
  EXPECT_TRUE(facts.nvml.ok());
  EXPECT_EQ(facts.driver, "570.00");
  EXPECT_EQ(facts.cuda, 12080);
  ASSERT_EQ(facts.gpus.size(), 1u);
  EXPECT_EQ(facts.gpus[0].identity->kind, "h100");
  EXPECT_EQ(facts.gpus[0].reading->temperature_celsius, 40);
  EXPECT_EQ(facts.libraries.size(), 3u);  // whether they are there depends on the machine
  EXPECT_TRUE(absl::IsNotFound(ReadGpus("libabsent.so").nvml));
}

}  // namespace
}  // namespace strata::client
