#include "topology/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Node MakeNode(std::string name, std::vector<std::string> at, int devices = 8) {
  Node node{.name = std::move(name), .kind = "h100", .devices = devices, .at = std::move(at)};
  for (int i = 0; i < devices; ++i) node.free.push_back(i);
  return node;
}

Description TwoLevels() {
  return {.levels = {"zone", "domain"},
          .links = {{"zone", {7e9, 2e-5, 7}}},
          .nodes = {MakeNode("n10", {"z1", "d1"}), MakeNode("n2", {"z1", "d1"}),
                    MakeNode("n1", {"z0", "d1"}), MakeNode("n0", {"z0", "d0"}, 4)}};
}

std::vector<std::string> NamesOf(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Node& node : cluster.nodes()) names.push_back(node.name);
  return names;
}

std::string ErrorOf(Description description) {
  const absl::StatusOr<Cluster> cluster = Cluster::Make(std::move(description));
  EXPECT_EQ(cluster.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(cluster.status().message());
}

TEST(NaturalLess, ComparesDigitsAsNumbers) {
  const std::vector<std::string> ordered = {"",
                                            "0",
                                            "2",
                                            "10",
                                            "99999999999999999998",
                                            "99999999999999999999",
                                            "a",
                                            "n1",
                                            "n01",
                                            "n1a",
                                            "n2",
                                            "n2-10",
                                            "n10",
                                            "n10-2",
                                            "o"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(NaturalLess(ordered[i], ordered[j]), i < j) << ordered[i] << " and " << ordered[j];
    }
  }
}

TEST(NaturalLess, PutsBytesAboveAsciiLastOnEveryMachine) {
  EXPECT_TRUE(NaturalLess("z", "\xc3\xa9"));
  EXPECT_FALSE(NaturalLess("\xc3\xa9", "z"));
}

TEST(EmptyCluster, HasARootWithoutNodes) {
  const Cluster cluster;
  EXPECT_EQ(cluster.groups().size(), 1u);
  EXPECT_EQ(cluster.node_depth(), 1);
  EXPECT_EQ(cluster.domain_depth(), 0);
  EXPECT_EQ(cluster.FindNode("n0"), -1);
  EXPECT_GT(cluster.LinkAt(0).bytes_per_second, 0);
}

TEST(Make, SortsNodesNaturallyInsideTheirGroups) {
  const absl::StatusOr<Cluster> cluster = Cluster::Make(TwoLevels());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(NamesOf(*cluster), ElementsAre("n0", "n1", "n2", "n10"));
  EXPECT_EQ(cluster->FindNode("n10"), 3);
  EXPECT_EQ(cluster->FindNode("n3"), -1);
  EXPECT_EQ(cluster->PathOf(1), "z0/d1");
}

TEST(Make, GroupsOfOneNameInTwoParentsAreTwo) {
  const absl::StatusOr<Cluster> cluster = Cluster::Make(TwoLevels());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ(cluster->groups().size(), 6u);  // the root, 2 zones, 3 domains
  EXPECT_NE(cluster->GroupOf(1, 2), cluster->GroupOf(2, 2));
  EXPECT_EQ(cluster->GroupOf(2, 2), cluster->GroupOf(3, 2));
  const Group& zone = cluster->groups()[1];
  EXPECT_EQ(zone.name, "z0");
  EXPECT_EQ(zone.end_child - zone.first_child, 2);
}

TEST(MeetingDepth, IsThatOfTheNearestCommonGroup) {
  const absl::StatusOr<Cluster> cluster = Cluster::Make(TwoLevels());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->MeetingDepth(0, 0), 3);
  EXPECT_EQ(cluster->MeetingDepth(2, 3), 2);
  EXPECT_EQ(cluster->MeetingDepth(0, 1), 1);
  EXPECT_EQ(cluster->MeetingDepth(1, 2), 0);
  EXPECT_EQ(cluster->DepthName(0), "root");
  EXPECT_EQ(cluster->DepthName(2), "domain");
  EXPECT_EQ(cluster->DepthName(3), "node");
}

TEST(Make, WithoutLevelsAllNodesAreOneDomain) {
  const absl::StatusOr<Cluster> cluster =
      Cluster::Make({.nodes = {MakeNode("b", {}), MakeNode("a", {})}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->domain_depth(), 0);
  EXPECT_EQ(cluster->pipeline_depth(), 0);
  EXPECT_EQ(cluster->MeetingDepth(0, 1), 0);
  EXPECT_EQ(cluster->AccountedDepth(1), 0);  // inside a node: at the root, the innermost
}

TEST(Make, NodesWithoutADomainStandAlone) {
  Description description{.levels = {"zone", "domain"},
                          .nodes = {MakeNode("n1", {"z0", ""}), MakeNode("n0", {"z0", ""}),
                                    MakeNode("n2", {"z0", "d0"}), MakeNode("n3", {"z0", "d0"})}};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(NamesOf(*cluster), ElementsAre("n0", "n1", "n2", "n3"));
  EXPECT_EQ(cluster->groups().size(), 5u);  // the root, a zone, three domains
  EXPECT_EQ(cluster->MeetingDepth(0, 1), 1);
  EXPECT_EQ(cluster->MeetingDepth(2, 3), 2);
}

TEST(Make, NodesWithoutAnOuterValueFormOneUnnamedGroup) {
  Description description{
      .levels = {"zone", "rack", "domain"},
      .nodes = {MakeNode("n0", {"", "r0", "d0"}), MakeNode("n1", {"", "", "d1"}),
                MakeNode("n2", {"", "", "d2"}), MakeNode("n3", {"z", "", "d1"})}};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->MeetingDepth(cluster->FindNode("n1"), cluster->FindNode("n2")), 2);
  EXPECT_EQ(cluster->MeetingDepth(cluster->FindNode("n0"), cluster->FindNode("n1")), 1);
  EXPECT_EQ(cluster->MeetingDepth(cluster->FindNode("n1"), cluster->FindNode("n3")), 0);
}

TEST(Make, BelowAnOuterDomainMissingValuesStandAloneToo) {
  Description description{.levels = {"domain", "tray"},
                          .domain_level = "domain",
                          .nodes = {MakeNode("n0", {"d", ""}), MakeNode("n1", {"d", ""})}};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->domain_depth(), 1);
  EXPECT_EQ(cluster->MeetingDepth(0, 1), 1);
}

TEST(PipelineLevel, IsTheZoneOrTheRootAndNeverInsideTheDomain) {
  EXPECT_EQ(Cluster::Make({.levels = {"zone", "rack"}})->pipeline_depth(), 1);
  EXPECT_EQ(Cluster::Make({.levels = {"pod", "rack"}})->pipeline_depth(), 0);
  EXPECT_EQ(Cluster::Make({.levels = {"pod", "rack"}, .pipeline_level = "rack"})->pipeline_depth(),
            2);
  EXPECT_EQ(Cluster::Make({.levels = {"pod", "zone"}, .domain_level = "pod"})->pipeline_depth(), 1);
}

TEST(Links, AreTakenFromTheNearestOuterLevelElseTheNearestInner) {
  Description description{.levels = {"region", "zone", "rack", "domain"},
                          .links = {{"zone", {2, 0, 1}}, {"domain", {4, 0, 1}}}};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::vector<double> rates;
  for (int depth = 0; depth <= cluster->node_depth(); ++depth) {
    rates.push_back(cluster->LinkAt(depth).bytes_per_second);
  }
  EXPECT_THAT(rates, ElementsAre(2, 2, 2, 2, 4, 4));
  EXPECT_FALSE(cluster->has_node_link());
  EXPECT_EQ(cluster->AccountedDepth(5), 4);
}

TEST(Links, OfTheNodeAreAccountedSeparately) {
  Description description{.levels = {"zone"}, .links = {{"node", {9, 0, 1}}, {"root", {1, 0, 1}}}};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->LinkAt(0).bytes_per_second, 1);
  EXPECT_EQ(cluster->LinkAt(1).bytes_per_second, 1);
  EXPECT_EQ(cluster->LinkAt(2).bytes_per_second, 9);
  EXPECT_EQ(cluster->AccountedDepth(2), 2);
}

TEST(Links, WithoutAnyAreAssumed) {
  const absl::StatusOr<Cluster> cluster = Cluster::Make({.levels = {"zone"}});
  for (int depth = 0; depth <= 2; ++depth) EXPECT_EQ(cluster->LinkAt(depth).bytes_per_second, 1e9);
}

TEST(MakeErrors, NameNodeAndField) {
  const auto broken = [](const auto& breaks) {
    Description description = TwoLevels();
    breaks(description);
    return ErrorOf(std::move(description));
  };
  EXPECT_THAT(broken([](auto& d) { d.levels[0] = "node"; }), HasSubstr("cannot name a level"));
  EXPECT_THAT(broken([](auto& d) { d.levels[0] = ""; }), HasSubstr("cannot name a level"));
  EXPECT_THAT(broken([](auto& d) { d.levels[0] = "domain"; }), HasSubstr("domain stands twice"));
  EXPECT_THAT(broken([](auto& d) { d.domain_level = "rack"; }), HasSubstr("domain_level"));
  EXPECT_THAT(broken([](auto& d) { d.pipeline_level = "rack"; }), HasSubstr("pipeline_level"));
  EXPECT_THAT(broken([](auto& d) { d.domain_level = "zone", d.pipeline_level = "domain"; }),
              HasSubstr("lies inside"));
  EXPECT_THAT(broken([](auto& d) { d.links["rack"] = {1, 0, 1}; }), HasSubstr("links.rack"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].name = "n10"; }), HasSubstr("n10: two nodes"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].name = ""; }), HasSubstr("no name"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].kind = ""; }), HasSubstr("n2: device"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].at.pop_back(); }), HasSubstr("n2: at has 1"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].devices = -1; }), HasSubstr("n2: devices: -1"));
  EXPECT_THAT(broken([](auto& d) { d.nodes[1].devices = 65; }), HasSubstr("0 to 64"));
  for (const std::vector<int>& free : {std::vector<int>{8}, {-1}, {1, 1}, {2, 1}}) {
    EXPECT_THAT(broken([&](auto& d) { d.nodes[1].free = free; }), HasSubstr("n2: free"));
  }
  const double infinite = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Link& link : {Link{0, 0, 1},
                           {-1, 0, 1},
                           {nan, 0, 1},
                           {1, -1, 1},
                           {1, nan, 1},
                           {1, 0, 0.5},
                           {infinite, 0, 1},
                           {1, infinite, 1},
                           {1, 0, infinite}}) {
    EXPECT_THAT(broken([&](auto& d) { d.links["zone"] = link; }), HasSubstr("links.zone"));
  }
}

TEST(SetState, ChangesWhatIsFreeAndHealthy) {
  absl::StatusOr<Cluster> cluster = Cluster::Make(TwoLevels());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  cluster->SetState(2, {1, 3}, false);
  EXPECT_THAT(cluster->nodes()[2].free, ElementsAre(1, 3));
  EXPECT_FALSE(cluster->nodes()[2].healthy);
}

// ---- random trees

Description RandomTree(std::mt19937& random) {
  static constexpr const char* kLevels[] = {"region", "zone", "rack", "domain"};
  const auto below = [&](uint32_t bound) { return static_cast<int>(random() % bound); };
  Description description;
  const int levels = below(5);
  for (int i = 0; i < levels; ++i) description.levels.push_back(kLevels[i]);
  if (levels > 0 && below(2) == 0) description.domain_level = kLevels[below(levels)];
  const int count = below(60);
  for (int i = 0; i < count; ++i) {
    std::vector<std::string> at;
    for (int level = 0; level < levels; ++level) {
      at.push_back(below(6) == 0 ? "" : absl::StrCat("v", below(12)));
    }
    description.nodes.push_back(MakeNode(absl::StrCat("n", i), at, below(9)));
  }
  std::shuffle(description.nodes.begin(), description.nodes.end(), random);
  return description;
}

// The depth at which two nodes meet, from the definition.
int ExpectedMeeting(const Cluster& cluster, const Node& a, const Node& b) {
  int depth = 0;
  for (size_t i = 0; i < a.at.size(); ++i) {
    const bool alone = static_cast<int>(i) + 1 >= cluster.domain_depth() && a.at[i].empty();
    if (a.at[i] != b.at[i] || alone) return depth;
    ++depth;
  }
  return depth;
}

void CheckGroups(const Cluster& cluster) {
  const std::vector<Group>& groups = cluster.groups();
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    const Group& group = groups[g];
    if (g > 0) {
      ASSERT_LT(group.first_node, group.end_node);
      ASSERT_GE(group.depth, groups[g - 1].depth);
      ASSERT_EQ(groups[group.parent].depth, group.depth - 1);
    }
    for (int node = group.first_node; node < group.end_node; ++node) {
      ASSERT_EQ(cluster.GroupOf(node, group.depth), g);
    }
    int next = group.first_node;  // children cover the group without gaps
    for (int child = group.first_child; child < group.end_child; ++child) {
      ASSERT_EQ(groups[child].parent, g);
      ASSERT_EQ(groups[child].first_node, next);
      next = groups[child].end_node;
    }
    const bool innermost = group.depth == static_cast<int>(cluster.levels().size());
    ASSERT_EQ(next, innermost ? group.first_node : group.end_node);
  }
}

TEST(RandomTrees, GroupsAreRangesAndMeetingsFollowTheDefinition) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Description description = RandomTree(random);
    const absl::StatusOr<Cluster> cluster = Cluster::Make(description);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    CheckGroups(*cluster);
    const int count = static_cast<int>(cluster->nodes().size());
    for (int a = 0; a < count; ++a) {
      ASSERT_EQ(cluster->FindNode(cluster->nodes()[a].name), a);
      for (int b = 0; b < count; ++b) {
        const int expected =
            a == b ? cluster->node_depth()
                   : ExpectedMeeting(*cluster, cluster->nodes()[a], cluster->nodes()[b]);
        ASSERT_EQ(cluster->MeetingDepth(a, b), expected) << a << " and " << b;
      }
    }
    // Neither the order of the description nor a round trip changes anything.
    std::shuffle(description.nodes.begin(), description.nodes.end(), random);
    const absl::StatusOr<Cluster> shuffled = Cluster::Make(description);
    const absl::StatusOr<Cluster> again = Cluster::Make(cluster->ToDescription());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(NamesOf(*shuffled), NamesOf(*cluster));
    EXPECT_EQ(NamesOf(*again), NamesOf(*cluster));
    EXPECT_EQ(again->domain_depth(), cluster->domain_depth());
    EXPECT_EQ(again->pipeline_depth(), cluster->pipeline_depth());
  }
}

}  // namespace
}  // namespace strata::topology
