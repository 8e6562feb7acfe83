#include "planner/search/network_of_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

using ::testing::HasSubstr;

// Two zones of two domains of two nodes of four devices.
topology::Cluster TwoZones() {
  topology::Description description;
  description.levels = {"zone", "domain"};
  description.domain_level = "domain";
  description.links = {{"root", {1e9, 1e-3, 4}}, {"zone", {25e9, 1e-5}}, {"domain", {300e9, 1e-6}}};
  for (int n = 0; n < 8; ++n) {
    description.nodes.push_back({.name = absl::StrCat("n", n),
                                 .kind = "h100",
                                 .devices = 4,
                                 .free = {0, 1, 2, 3},
                                 .at = {absl::StrCat("z", n / 4), absl::StrCat("d", n / 2)}});
  }
  return *topology::Cluster::Make(description);
}

TEST(NetworkOfClusterTest, JobInsideADomain_CrossesNoOtherLink) {
  const Network base{.network_rate = 7, .host_rate = 50e9};
  const auto part = PartOf(TwoZones(), "", 8, base);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->kind, "h100");
  EXPECT_EQ(part->network.node_devices, 4);
  EXPECT_EQ(part->network.domain_devices, 8);
  EXPECT_EQ(part->network.domain_rate, 300e9);
  EXPECT_EQ(part->network.network_rate, 7);
  EXPECT_EQ(part->network.host_rate, 50e9);
  EXPECT_EQ(part->widest, "domain");
}

TEST(NetworkOfClusterTest, JobThatCrossesLevels_HasTheSlowestLinkOfThem) {
  EXPECT_EQ(PartOf(TwoZones(), "h100", 16, {})->network.network_rate, 25e9);
  EXPECT_EQ(PartOf(TwoZones(), "h100", 16, {})->widest, "zone");
  EXPECT_EQ(PartOf(TwoZones(), "h100", 17, {})->network.network_rate, 1e9);
  EXPECT_EQ(PartOf(TwoZones(), "h100", 0, {})->devices, 32);
}

TEST(NetworkOfClusterTest, BusyAndUnhealthyDevices_DoNotCount) {
  topology::Cluster cluster = TwoZones();
  cluster.SetState(0, {1}, true);
  cluster.SetState(1, {0, 1, 2, 3}, false);
  EXPECT_EQ(PartOf(cluster, "", 0, {})->devices, 25);
  EXPECT_EQ(PartOf(cluster, "", 8, {})->widest, "domain");
}

TEST(NetworkOfClusterTest, DevicesThatAreNotThere_AreToldWithWhatIs) {
  EXPECT_THAT(PartOf(TwoZones(), "b200", 8, {}).status().message(),
              HasSubstr("no b200, only 32 h100"));
  const auto many = PartOf(TwoZones(), "", 64, {});
  EXPECT_EQ(many.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(many.status().message(), HasSubstr("32 h100, not 64"));
}

}  // namespace
}  // namespace strata::planner
