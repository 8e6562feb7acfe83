#include "client/doctor/checks.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

namespace strata::client {
namespace {

MachineFacts Healthy() {
  MachineFacts facts;
  facts.cpu_model = "CPU";
  facts.cpu_flags = " sse2 avx2 fma ";
  facts.cores = 8;
  facts.memory = int64_t{64} << 30;
  facts.memory_available = int64_t{60} << 30;
  facts.transparent_huge_pages = "always [madvise] never";
  facts.open_files_limit = 65536;
  facts.shared_memory = int64_t{32} << 30;
  facts.disk_free = int64_t{500} << 30;
  return facts;
}

// Health of the one finding that a change makes worse.
Health After(const std::string& name, const std::function<void(MachineFacts&)>& change) {
  MachineFacts facts = Healthy();
  change(facts);
  Health health = Health::kOk;
  for (const Finding& finding : Judge(facts)) {
    if (finding.name == name) {
      health = finding.health;
    } else {
      EXPECT_EQ(finding.health, Health::kOk) << finding.name;
    }
    EXPECT_EQ(finding.health == Health::kOk, finding.advice.empty()) << finding.name;
    EXPECT_FALSE(finding.value.empty()) << finding.name;
  }
  return health;
}

TEST(Doctor, HealthyMachineHasNothingToDo) {
  EXPECT_EQ(After("", [](MachineFacts&) {}), Health::kOk);
}

TEST(Doctor, EachLackIsFoundAlone) {
  EXPECT_EQ(After("cpu", [](auto& f) { f.cpu_flags = " sse2 "; }), Health::kWarning);
  EXPECT_EQ(After("memory", [](auto& f) { f.memory_available = 1 << 30; }), Health::kWarning);
  EXPECT_EQ(After("memory", [](auto& f) { f.memory = -1; }), Health::kWarning);
  EXPECT_EQ(
      After("huge pages", [](auto& f) { f.transparent_huge_pages = "always madvise [never]"; }),
      Health::kWarning);
  EXPECT_EQ(After("locked memory", [](auto& f) { f.locked_memory_limit = 8 << 20; }),
            Health::kWarning);
  EXPECT_EQ(After("open files", [](auto& f) { f.open_files_limit = 256; }), Health::kWarning);
  EXPECT_EQ(After("shared memory", [](auto& f) { f.shared_memory = 64 << 20; }), Health::kWarning);
  EXPECT_EQ(After("shared memory", [](auto& f) { f.shared_memory = -1; }), Health::kFailure);
  EXPECT_EQ(After("io_uring", [](auto& f) { f.io_uring_error = EPERM; }), Health::kWarning);
  EXPECT_EQ(After("disk", [](auto& f) { f.disk_free = int64_t{5} << 30; }), Health::kWarning);
  EXPECT_EQ(After("disk", [](auto& f) { f.disk_free = 1 << 20; }), Health::kFailure);
  EXPECT_EQ(After("binaries", [](auto& f) { f.missing_binaries = {"strata-worker"}; }),
            Health::kFailure);
}

TEST(Doctor, ThisMachineCanBeRead) {
  const MachineFacts facts = ReadMachine();
  EXPECT_GE(facts.cores, 1);
  EXPECT_GT(facts.memory, 0);
  EXPECT_GT(facts.disk_free, 0);
}

}  // namespace
}  // namespace strata::client
