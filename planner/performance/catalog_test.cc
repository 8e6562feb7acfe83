#include "planner/performance/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "topology/device_kind.h"

namespace strata::planner {
namespace {

using testing::HasSubstr;

FoundMachine Find(const MachineRequest& request) {
  const absl::StatusOr<FoundMachine> found = Catalog::Shipped().Find(request);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : FoundMachine();
}

TEST(Shipped, EveryGpuIsFoundByNameInEachPrecisionItHas) {
  for (const char* name :
       {"V100", "A100-40GB", "A100-80GB", "H100", "H200", "B200", "GB200", "GB300", "B300", "GH200",
        "GB10", "RTX 3090", "RTX 4090", "L4", "T4", "V100-16GB", "A10", "L40S", "RTX 5090"}) {
    const FoundMachine found = Find({.gpu = name});
    EXPECT_EQ(found.machine.gpu.name, name);
    EXPECT_GT(found.machine.gpu.peak[static_cast<int>(Precision::kHalf)], 0) << name;
    // Everything has a calibration of something like it.
    EXPECT_NE(found.calibration, "default") << name;
  }
}

TEST(Shipped, CalibrationsArePhysical) {
  for (const v1::CalibrationProfile& record : Catalog::Shipped().profiles().calibrations()) {
    const std::string name = record.gpu() + " " + record.precision() + " " + record.release();
    EXPECT_GT(record.product(), 0.3) << name;
    EXPECT_LE(record.product(), 0.95) << name;
    EXPECT_LE(record.attention(), 0.85) << name;
    EXPECT_LE(record.memory(), 1.0) << name;
    EXPECT_LE(record.communication(), 1.6) << name;
    EXPECT_LE(record.overhead_seconds(), 0.2) << name;
    EXPECT_LE(record.straggler(), 0.02) << name;
    EXPECT_FALSE(record.rows().empty()) << name;
  }
}

TEST(Find, AliasesAndCaseDoNotMatter) {
  EXPECT_EQ(Find({.gpu = "a100"}).machine.gpu.name, "A100-80GB");
  EXPECT_EQ(Find({.gpu = "a100-80"}).machine.gpu.name, "A100-80GB");
  EXPECT_EQ(Find({.gpu = "a100-40"}).machine.gpu.name, "A100-40GB");
  EXPECT_EQ(Find({.gpu = "rtx4090"}).machine.gpu.name, "RTX 4090");
}

// Nodes register the kind that their driver's name for a GPU has.
TEST(Shipped, EveryGpuIsFoundByTheKindOfItsProductsName) {
  for (const auto& [product, name] :
       std::vector<std::pair<std::string, std::string>>{{"NVIDIA A100-SXM4-80GB", "A100-80GB"},
                                                        {"NVIDIA H100 80GB HBM3", "H100"},
                                                        {"NVIDIA H200", "H200"},
                                                        {"NVIDIA GH200 480GB", "GH200"},
                                                        {"NVIDIA B200", "B200"},
                                                        {"NVIDIA GB200", "GB200"},
                                                        {"NVIDIA B300 SXM6 AC", "B300"},
                                                        {"NVIDIA GB300", "GB300"},
                                                        {"NVIDIA GB10", "GB10"},
                                                        {"NVIDIA L4", "L4"},
                                                        {"NVIDIA GeForce RTX 3090", "RTX 3090"},
                                                        {"NVIDIA GeForce RTX 4090", "RTX 4090"},
                                                        {"NVIDIA GeForce RTX 5090", "RTX 5090"},
                                                        {"NVIDIA A10", "A10"},
                                                        {"NVIDIA L40S", "L40S"},
                                                        {"Tesla V100-SXM2-32GB", "V100"},
                                                        {"Tesla T4", "T4"}}) {
    EXPECT_EQ(Find({.gpu = topology::KindOfProduct(product)}).machine.gpu.name, name);
  }
}

TEST(Find, MemoryDecidesWhereANameStandsForSeveralSizes) {
  const auto name_of = [](const char* gpu, double memory_bytes) {
    return Find({.gpu = gpu, .memory_bytes = memory_bytes}).machine.gpu.name;
  };
  EXPECT_EQ(name_of("a100", 40e9), "A100-40GB");
  EXPECT_EQ(name_of("A100", 42.9e9), "A100-40GB");
  EXPECT_EQ(name_of("a100", 85.9e9), "A100-80GB");
  EXPECT_EQ(name_of("v100", 16e9), "V100-16GB");
  EXPECT_EQ(name_of("v100", 34e9), "V100");
  // A name that says the size is believed, and so is one that comes in one size.
  EXPECT_EQ(name_of("a100-80", 40e9), "A100-80GB");
  EXPECT_EQ(name_of("h100", 40e9), "H100");
  EXPECT_EQ(name_of("l4", 48e9), "L4");
}

TEST(MayBe, AKindWithoutASizeIsAnyOfThem) {
  const Catalog& catalog = Catalog::Shipped();
  EXPECT_TRUE(catalog.MayBe("a100", "a100-40"));
  EXPECT_TRUE(catalog.MayBe("a100", "A100-80GB"));
  EXPECT_TRUE(catalog.MayBe("v100", "v100-32"));
  EXPECT_TRUE(catalog.MayBe("a100-40", "A100-40GB"));
  EXPECT_FALSE(catalog.MayBe("a100-80", "a100-40"));
  EXPECT_FALSE(catalog.MayBe("h100", "a100-40"));
  EXPECT_FALSE(catalog.MayBe("a100", "abacus"));
}

TEST(Find, OwnReleaseAnswersFirst) {
  EXPECT_EQ(
      Find({.gpu = "H100", .precision = Precision::kFp8, .release = "dgxc-v25.02"}).calibration,
      "H100 fp8 dgxc-v25.02");
}

TEST(Find, LaterReleaseOfAFamilyTakesTheLatestKnown) {
  const FoundMachine found =
      Find({.gpu = "H100", .precision = Precision::kFp8, .release = "bridge-26.12"});
  EXPECT_EQ(found.calibration, "H100 fp8 bridge-26.04.01");
  EXPECT_EQ(found.software, "megatron-bridge");
}

TEST(Find, UnknownReleaseTakesWhatAnswersForAny) {
  const FoundMachine found = Find({.gpu = "H100", .release = "mine", .framework = "mine"});
  EXPECT_EQ(found.calibration, "H100 bf16 any release");
  EXPECT_EQ(found.software, "generic");
}

TEST(Find, StepsOfStrataAreCalibratedByItsOwnRuns_AndNoOthersAre) {
  const Catalog& catalog = Catalog::Shipped();
  EXPECT_EQ(catalog.Find({.gpu = "H200", .framework = kOwnFramework})->calibration,
            "H200 bf16 strata-2026.11");
  for (const char* framework : {"torchtitan", "NeMo", "generic", ""}) {
    const auto other = catalog.Find({.gpu = "H200", .framework = framework});
    EXPECT_EQ(other->calibration.find("strata"), std::string::npos) << other->calibration;
  }
}

TEST(Find, FrameworkNamesTheSoftwareOfAnUnknownRelease) {
  EXPECT_EQ(Find({.gpu = "A100", .release = "x", .framework = "Megatron-LM"}).software,
            "megatron-lm");
  EXPECT_EQ(Find({.gpu = "A100", .release = "x", .framework = "Megatron-DeepSpeed"}).software,
            "megatron-deepspeed");
}

TEST(Find, GpuWithoutCalibrationsTakesThoseOfOneLikeIt) {
  EXPECT_THAT(Find({.gpu = "H200"}).calibration, HasSubstr("H100"));
  EXPECT_THAT(Find({.gpu = "B300", .precision = Precision::kNvfp4}).calibration,
              HasSubstr("GB300 nvfp4"));
}

TEST(Find, UnknownGpuIsAScaledOneWhenItsPeakIsGiven) {
  EXPECT_TRUE(absl::IsNotFound(Catalog::Shipped().Find({.gpu = "MI300X"}).status()));
  const FoundMachine found = Find({.gpu = "MI300X", .half_peak = 1300e12, .memory_bytes = 192e9});
  EXPECT_DOUBLE_EQ(found.machine.gpu.peak[static_cast<int>(Precision::kHalf)], 1300e12);
  EXPECT_EQ(found.machine.gpu.memory_bytes, 192e9);
}

TEST(Find, PrecisionThatTheGpuLacksIsRefused) {
  const auto found = Catalog::Shipped().Find({.gpu = "A100", .precision = Precision::kFp8});
  EXPECT_TRUE(absl::IsFailedPrecondition(found.status()));
  EXPECT_THAT(found.status().message(), HasSubstr("A100-80GB has no fp8 products"));
}

TEST(Find, NetworkOfTheRequestReplacesTheProfiles) {
  const FoundMachine found = Find({.gpu = "H100", .node_devices = 4, .network_rate = 1e9});
  EXPECT_EQ(found.machine.network.node_devices, 4);
  EXPECT_EQ(found.machine.network.network_rate, 1e9);
}

TEST(From, MissingFiguresAndTwinsAreRefused) {
  v1::HardwareCatalog profiles = Catalog::Shipped().profiles();
  profiles.mutable_gpus(0)->set_memory_rate(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Catalog::From(profiles).status()));
  profiles = Catalog::Shipped().profiles();
  profiles.add_gpus()->CopyFrom(profiles.gpus(0));
  EXPECT_TRUE(absl::IsInvalidArgument(Catalog::From(profiles).status()));
  profiles = Catalog::Shipped().profiles();
  profiles.add_calibrations()->CopyFrom(profiles.calibrations(0));
  EXPECT_TRUE(absl::IsInvalidArgument(Catalog::From(profiles).status()));
}

}  // namespace
}  // namespace strata::planner
