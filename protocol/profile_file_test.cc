#include "protocol/profile_file.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::protocol {
namespace {

v1::Profile Good() {
  v1::Profile profile;
  profile.set_host("n0");
  v1::RankProfile& ranks = *profile.add_ranks();
  ranks.set_ranks(1);
  ranks.set_threads(2);
  v1::OpTime& time = *ranks.add_ops();
  time.set_kind("matmul");
  time.add_shape(4);
  time.add_shape(6);
  time.set_seconds(1e-300);
  ranks.add_interference()->set_communication_stretch(1.5);
  profile.set_host_copy_rate(1e10);
  v1::DiskProfile& disk = *profile.add_disks();
  disk.set_directory("/scratch");
  v1::DiskRate& rate = *disk.add_rates();
  rate.set_request_bytes(1 << 20);
  rate.set_depth(8);
  rate.set_read(2e9);
  rate.set_write(1e9);
  rate.set_mixed(1.5e9);
  return profile;
}

v1::DeviceProfile Device(const std::string& kind, double seconds, bool standin = false) {
  v1::DeviceProfile device;
  device.set_name("NVIDIA " + kind);
  device.set_kind(kind);
  device.set_standin(standin);
  v1::OpTime& time = *device.add_ops();
  time.set_kind("matmul");
  time.set_seconds(seconds);
  for (v1::CopyTime* copy :
       {device.add_to_device(), device.add_from_device(), device.add_both_ways()}) {
    copy->set_bytes(1 << 20);
    copy->set_seconds(seconds);
  }
  return device;
}

std::string WhyNot(const std::string& text) {
  const auto read = ParseProfile("p", text);
  EXPECT_FALSE(read.ok());
  return std::string(read.status().message());
}

TEST(ProfileFileTest, TextReadsBackAsItWas) {
  const v1::Profile profile = Good();
  const auto read = ParseProfile("p", ProfileText(profile));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), profile.SerializeAsString());
}

TEST(ProfileFileTest, DevicesReadBackAsTheyWere_WithAndWithoutAProcessor) {
  v1::Profile profile = Good();
  *profile.add_devices() = Device("h200", 1e-3);
  *profile.add_devices() = Device("gpu", 1e-6, /*standin=*/true);
  for (int i = 0; i < 2; ++i, profile.clear_ranks()) {
    const auto read = ParseProfile("p", ProfileText(profile));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->SerializeAsString(), profile.SerializeAsString());
  }
}

// As it was written before there were devices.
TEST(ProfileFileTest, AnOldProfileReads) {
  const auto read =
      ParseProfile("p",
                   "# proto-file: proto/strata/v1/profile.proto, proto-message: "
                   "Profile\nhost: \"a\"\nisa: \"avx512\"\nranks { ranks: 1 threads: 2 "
                   "ops { kind: \"matmul\" shape: [4, 6, 5, 0, 1, 0, 0, 0, 0] flops: "
                   "240 bytes: 296 seconds: 1e-6 } }\nhost_copy_rate: 1e10\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ranks_size(), 1);
  EXPECT_EQ(read->devices_size(), 0);
}

TEST(ProfileFileTest, WhatWasNotMeasuredAgainIsKept) {
  v1::Profile known = Good();
  *known.add_devices() = Device("h200", 1);
  *known.add_devices() = Device("l4", 2);
  v1::Profile gpu;
  gpu.set_host(known.host());
  *gpu.add_devices() = Device("l4", 3);
  *gpu.add_devices() = Device("l4", 4, /*standin=*/true);
  const v1::Profile merged = MergedProfiles(known, gpu);
  EXPECT_EQ(merged.ranks_size(), 1);
  EXPECT_EQ(merged.host_copy_rate(), known.host_copy_rate());
  ASSERT_EQ(merged.devices_size(), 3);
  EXPECT_EQ(merged.devices(0).ops(0).seconds(), 3);
  EXPECT_EQ(merged.devices(1).ops(0).seconds(), 4);
  EXPECT_EQ(merged.devices(2).kind(), "h200");
  EXPECT_EQ(merged.disks_size(), 1);

  v1::Profile processor = Good();
  processor.set_isa("avx2");
  processor.mutable_disks(0)->set_directory("/other");
  const v1::Profile again = MergedProfiles(merged, processor);
  EXPECT_EQ(again.isa(), "avx2");
  EXPECT_EQ(again.devices_size(), 3);
  EXPECT_EQ(again.disks_size(), 2);

  processor.set_host("n1");
  EXPECT_EQ(MergedProfiles(merged, processor).SerializeAsString(), processor.SerializeAsString());
}

TEST(ProfileFileTest, TextThatIsNoProfileIsRefusedWithItsPlace) {
  EXPECT_EQ(WhyNot("host: \"a\"\nranks { rank: 1 }\n").substr(0, 6), "p:2:13");
  const std::string cut = ProfileText(Good());
  EXPECT_TRUE(absl::StartsWith(WhyNot(cut.substr(0, cut.size() - 4)), "p:"));
  EXPECT_TRUE(absl::StrContains(WhyNot("{]"), "strata calibrate"));
  EXPECT_TRUE(absl::StartsWith(WhyNot(""), "p:1:1: it holds no measurements"));
}

TEST(ProfileFileTest, NumbersThatNothingCanTakeAreRefused) {
  for (const char* bad :
       {"ranks: 0 threads: 1", "ranks: 1 threads: 0", "ranks: 1 threads: 1 action_seconds: -1",
        "ranks: 1 threads: 1 ops { kind: \"a\" seconds: 0 }",
        "ranks: 1 threads: 1 ops { kind: \"a\" seconds: nan }",
        "ranks: 1 threads: 1 communications { seconds: inf }",
        "ranks: 1 threads: 1 copies { seconds: 1 }",
        "ranks: 1 threads: 1 interference { compute_lost: 1 communication_stretch: 1 }",
        "ranks: 1 threads: 1 interference { communication_stretch: 0.5 }"}) {
    const std::string why = WhyNot(absl::StrCat("host: \"a\" ranks { ", bad, " }"));
    EXPECT_TRUE(absl::StartsWith(why, "p: ranks[0]: ")) << why;
  }
  for (const char* bad :
       {"devices { name: \"a\" }", "devices { name: \"a\" kind: \"a\" }",
        "devices { name: \"a\" kind: \"a\" ops { kind: \"b\" seconds: 1 } to_device { bytes: 1 "
        "seconds: 0 } from_device { bytes: 1 seconds: 1 } }",
        "disks { backend: \"aio\" }", "host_copy_rate: -1", "host_copy_rate: nan",
        "disks { directory: \"/d\" rates { depth: 8 read: 1 write: 1 mixed: 1 } }",
        "disks { directory: \"/d\" rates { request_bytes: 1 depth: 8 read: 1 write: inf mixed: 1 } "
        "}",
        "disks { directory: \"/d\" rates { request_bytes: 1 depth: 8 read: 1 write: 1 } }"}) {
    const std::string why = WhyNot(absl::StrCat("host: \"a\" ranks { ranks: 1 threads: 1 } ", bad));
    EXPECT_TRUE(absl::StartsWith(why, "p: ")) << why;
    EXPECT_TRUE(absl::StrContains(why, "strata calibrate")) << why;
  }
}

}  // namespace
}  // namespace strata::protocol
