#include "client/doctor/rates.h"

#include <gtest/gtest.h>

namespace strata::client {
namespace {

v1::Profile Measured() {
  v1::Profile profile;
  profile.set_host_copy_rate(46.5e9);
  v1::DiskProfile& disk = *profile.add_disks();
  disk.set_directory("/scratch");
  disk.set_backend("aio");
  disk.set_direct(true);
  for (const int depth : {1, 8, 32}) {
    v1::DiskRate& rate = *disk.add_rates();
    rate.set_depth(depth);
    rate.set_read(2.5e9);
    rate.set_write(1e9);
    rate.set_mixed(depth == 8 ? 1.5e9 : 1.2e9);
  }
  return profile;
}

TEST(DoctorRates, DisksAndMemoryAreShownAtTheirBest) {
  const auto findings = JudgeRates(std::optional(Measured()));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].value, "46.5 GB/s");
  EXPECT_EQ(findings[1].name, "disk /scratch");
  EXPECT_EQ(findings[1].value, "aio: read 2.50, write 1.00, both 1.50 GB/s at a depth of 8");
  EXPECT_EQ(findings[1].health, Health::kOk);
}

TEST(DoctorRates, ADiskWithoutDirectIoIsTold) {
  v1::Profile profile = Measured();
  profile.mutable_disks(0)->set_direct(false);
  const auto findings = JudgeRates(std::optional(profile));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].health, Health::kWarning);
  EXPECT_FALSE(findings[1].advice.empty());
}

TEST(DoctorRates, WhatWasNotMeasuredIsNotShown) {
  EXPECT_TRUE(JudgeRates(std::optional<v1::Profile>()).empty());
  EXPECT_TRUE(JudgeRates(std::optional(v1::Profile())).empty());
}

TEST(DoctorRates, AProfileThatCannotBeReadIsTold) {
  const auto findings = JudgeRates(absl::InvalidArgumentError("p:1:1: no profile"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].health, Health::kWarning);
  EXPECT_EQ(findings[0].advice, "p:1:1: no profile");
}

}  // namespace
}  // namespace strata::client
