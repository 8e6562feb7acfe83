#include "topology/import/topology_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace strata::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kGood[] = R"(levels: [zone, rack, domain]
domain_level: domain
pipeline_level: zone
links:
  zone: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}
  node: {bytes_per_second: 450e9}
nodes:
  - {name: n0, at: {zone: z0, rack: 1, domain: d0}, device: h100, devices: 8}
  - {name: n1, at: {zone: z0}, device: h100, devices: 8, free: 3, healthy: true}
  - {name: n2, at: {domain: "d 1"}, device: a100, devices: 4, free: [3, 1], healthy: false}
  - name: n3
    device: cpu
    devices: 1
    free: []
)";

Description Good(absl::string_view text) {
  absl::StatusOr<Description> description = ReadTopologyFile(text, "t.yaml");
  EXPECT_TRUE(description.ok()) << description.status().message();
  if (!description.ok()) return {};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(*description);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(description);
}

std::vector<std::string> ErrorsOf(absl::string_view text) {
  const absl::StatusOr<Description> description = ReadTopologyFile(text, "t.yaml");
  EXPECT_EQ(description.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return absl::StrSplit(std::string(description.status().message()), '\n', absl::SkipEmpty());
}

// The good file with one text in it replaced.
std::vector<std::string> ErrorsWith(const char* from, const char* to) {
  const std::string text = absl::StrReplaceAll(kGood, {{from, to}});
  EXPECT_NE(text, kGood) << from;
  return ErrorsOf(text);
}

TEST(TopologyFile, HoldsLevelsLinksAndNodes) {
  const Description description = Good(kGood);
  EXPECT_THAT(description.levels, ElementsAre("zone", "rack", "domain"));
  EXPECT_EQ(description.domain_level, "domain");
  EXPECT_EQ(description.pipeline_level, "zone");
  ASSERT_EQ(description.links.size(), 2u);
  EXPECT_EQ(description.links.at("zone").bytes_per_second, 7e9);
  EXPECT_EQ(description.links.at("zone").oversubscription, 7);
  EXPECT_EQ(description.links.at("node").latency_seconds, 0);
  ASSERT_EQ(description.nodes.size(), 4u);
  EXPECT_THAT(description.nodes[0].at, ElementsAre("z0", "1", "d0"));
  EXPECT_THAT(description.nodes[0].free, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(description.nodes[1].at, ElementsAre("z0", "", ""));
  EXPECT_THAT(description.nodes[1].free, ElementsAre(0, 1, 2));
  EXPECT_THAT(description.nodes[2].free, ElementsAre(1, 3));
  EXPECT_EQ(description.nodes[2].kind, "a100");
  EXPECT_FALSE(description.nodes[2].healthy);
  EXPECT_THAT(description.nodes[3].at, ElementsAre("", "", ""));
  EXPECT_THAT(description.nodes[3].free, IsEmpty());
}

TEST(TopologyFile, MayHaveNoLevels) {
  const Description description = Good("nodes:\n- {name: n0, device: cpu, devices: 1}\n");
  EXPECT_THAT(description.levels, IsEmpty());
}

TEST(TopologyFile, IsTheSameWithCarriageReturnsAndAByteOrderMark) {
  const std::string text =
      absl::StrCat("\xef\xbb\xbf", absl::StrReplaceAll(kGood, {{"\n", "\r\n"}}));
  EXPECT_EQ(WriteTopologyFile(Good(text)), WriteTopologyFile(Good(kGood)));
}

TEST(WrittenFile, ReadsBackAsTheSame) {
  Description description = Good(kGood);
  description.nodes[1].at = {"a \"b\"", "\\", "null"};
  description.nodes[1].name = "é{i}";
  description.links["rack"] = {1.0 / 3, 1e-300, 1.25};
  const std::string text = WriteTopologyFile(description);
  const Description again = Good(text);
  EXPECT_EQ(WriteTopologyFile(again), text);
  EXPECT_EQ(again.nodes[1].at, description.nodes[1].at);
  EXPECT_EQ(again.nodes[1].name, description.nodes[1].name);
  EXPECT_EQ(again.nodes[2].free, description.nodes[2].free);
  EXPECT_EQ(again.links.at("rack").bytes_per_second, 1.0 / 3);
}

TEST(CompactNodes, StandForOneNodeEachNumber) {
  const Description description = Good(R"(levels: [zone, domain]
nodes:
  - name: "n[08-11]x"
    at: {zone: "z{i/8}", domain: "d{(i+2)*3%7}-{i}"}
    device: h100
    devices: 2
    free: 1
  - {name: "m[1,3-4]", device: cpu, devices: 1}
)");
  std::vector<std::string> told;
  for (const Node& node : description.nodes) {
    told.push_back(
        absl::StrCat(node.name, " ", node.at[0], " ", node.at[1], " ", node.free.size()));
  }
  EXPECT_THAT(told, ElementsAre("n08x z1 d2-8 1", "n09x z1 d5-9 1", "n10x z1 d1-10 1",
                                "n11x z1 d4-11 1", "m1   1", "m3   1", "m4   1"));
}

TEST(CompactNodes, SayWhatIsWrongWithThem) {
  const auto error = [](const char* name, const char* zone) {
    return ErrorsOf(absl::StrCat("levels: [zone]\nnodes:\n- {name: \"", name, "\", at: {zone: \"",
                                 zone, "\"}, device: cpu, devices: 1}\n"))[0];
  };
  EXPECT_EQ(
      error("n[0-", "z"),
      "t.yaml:3:10: nodes[0].name: n[0- must have one pair of brackets — many equal nodes are "
      "written like name: \"n[0000-0383]\", at: {rack: \"r{i/16}\"}");
  for (const char* name : {"n[]", "n[3-1]", "n[a-b]", "n[0-1][0-1]", "n]0[", "n[0-9999999]",
                           "n[0-99999999999999999999]", "n[-1]", "n[1,]"}) {
    EXPECT_THAT(error(name, "z"), HasSubstr("t.yaml:3:10: nodes[0].name: ")) << name;
  }
  for (const char* zone : {"z{", "z}", "z{}", "z{i", "z{j}", "z{i+}", "z{(i}", "z{i i}", "z{i/0}",
                           "z{i/(i-1)}", "z{999999999999999*999999999999999}", "z{-i}",
                           "z{((((((((((((((((((i))))))))))))))))))}"}) {
    EXPECT_THAT(error("n[0-3]", zone), HasSubstr("nodes[0].at.zone: ")) << zone;
  }
}

TEST(TopologyErrors, StandAtTheirPlaceWithTheirPathAndRemedy) {
  EXPECT_THAT(ErrorsWith("devices: 4", "devises: 4"),
              ElementsAre("t.yaml:10:51: nodes[2].devises: unknown field — did you mean devices?"));
  EXPECT_THAT(
      ErrorsWith("name: n1", "name: n0"),
      ElementsAre("t.yaml:9:12: nodes[1].name: two nodes are named n0 (the first in line 8) "
                  "— name each node once"));
  EXPECT_THAT(
      ErrorsWith("rack: 1", "rakc: 1"),
      ElementsAre("t.yaml:8:31: nodes[0].at.rakc: there is no level rakc — did you mean rack?"));
  EXPECT_THAT(ErrorsWith("free: 3", "free: 9"),
              ElementsAre("t.yaml:9:64: nodes[1].free: must be between 0 and 8, not 9"));
  EXPECT_THAT(
      ErrorsWith("[3, 1]", "[3, 3, 4]"),
      ElementsAre("t.yaml:10:73: nodes[2].free[1]: device 3 stands twice — remove one of them",
                  "t.yaml:10:76: nodes[2].free[2]: must be between 0 and 3, not 4"));
  EXPECT_THAT(ErrorsWith("devices: 1", "devices: 65"), ElementsAre(HasSubstr("between 0 and 64")));
  EXPECT_THAT(ErrorsWith("devices: 1", "devices: \"1\""),
              ElementsAre(HasSubstr("must be a whole number, not the text \"1\"")));
  EXPECT_THAT(ErrorsWith("healthy: true", "healthy: yes"), ElementsAre(HasSubstr("true or false")));
  EXPECT_THAT(ErrorsWith("device: cpu", "device:"),
              ElementsAre(HasSubstr("nodes[3].device: must be a text")));
  EXPECT_THAT(ErrorsWith("    device: cpu\n", ""),
              ElementsAre(HasSubstr("t.yaml:11:5: nodes[3].device: required key is missing")));
  EXPECT_THAT(ErrorsWith("domain_level: domain", "domain_level: doman"),
              ElementsAre(HasSubstr(
                  "t.yaml:2:15: domain_level: there is no level doman — did you mean domain?")));
  EXPECT_THAT(ErrorsWith("domain_level: domain\npipeline_level: zone",
                         "domain_level: zone\npipeline_level: rack"),
              ElementsAre(HasSubstr("rack lies inside the domain's level, zone")));
  EXPECT_THAT(ErrorsWith("[zone, rack, domain]", "[zone, rack, domain, node]"),
              ElementsAre(HasSubstr("levels[3]: node cannot name a level")));
  EXPECT_THAT(ErrorsWith("[zone, rack, domain]", "[zone, rack, domain, rack]"),
              ElementsAre(HasSubstr("levels[3]: rack stands twice")));
  EXPECT_THAT(ErrorsWith("7e9", "-1"),
              ElementsAre(HasSubstr("bytes_per_second: must be greater than 0")));
  EXPECT_THAT(ErrorsWith("7e9", ".inf"), ElementsAre(HasSubstr("not a finite number")));
  EXPECT_THAT(ErrorsWith("oversubscription: 7", "oversubscription: 0.5"),
              ElementsAre(HasSubstr("at least 1")));
  EXPECT_THAT(ErrorsWith("  zone: {bytes", "  zoen: {bytes"),
              ElementsAre(HasSubstr("links.zoen: there is no level")));
  EXPECT_THAT(ErrorsWith("{bytes_per_second: 450e9}", "{}"),
              ElementsAre(HasSubstr("links.node.bytes_per_second: required key is missing")));
}

TEST(TopologyErrors, AreAllToldAtOnce) {
  const auto errors =
      ErrorsOf("levels: zone\nlink: {}\nnodes:\n- {nmae: n0, at: {a: b}, devices: -1}\n- 7\n");
  EXPECT_THAT(errors,
              ElementsAre(HasSubstr("1:9: levels: must be a list"),
                          HasSubstr("2:1: link: unknown field — did you mean links?"),
                          HasSubstr("4:3: nodes[0].device: required"),
                          HasSubstr("4:4: nodes[0].nmae: unknown field — did you mean name?"),
                          HasSubstr("4:35: nodes[0].devices: must be between"),
                          HasSubstr("5:3: nodes[1]: must be a section")));
}

TEST(TopologyErrors, OfFilesThatAreNoTopology) {
  EXPECT_THAT(ErrorsOf(""), ElementsAre(HasSubstr("t.yaml:1:1: nodes: required key is missing")));
  EXPECT_THAT(ErrorsOf("nodes: []"), ElementsAre(HasSubstr("an empty list")));
  EXPECT_THAT(ErrorsOf("a"), ElementsAre(HasSubstr("must be a section of keys, not a")));
  EXPECT_THAT(ErrorsOf("nodes: \xff"), ElementsAre(HasSubstr("t.yaml:1:8: not UTF-8")));
  EXPECT_THAT(ErrorsOf(std::string("nodes: \0", 8)), ElementsAre(HasSubstr("a NUL byte")));
  EXPECT_THAT(ErrorsOf(std::string(100000, '[')), ElementsAre(HasSubstr("nested too deep")));
  EXPECT_THAT(ErrorsOf("nodes: &a x"),
              testing::Contains(HasSubstr("topology files have no aliases and anchors")));
  EXPECT_THAT(ErrorsOf("nodes:\n\t- a"), ElementsAre(HasSubstr("a tab as indentation")));
  EXPECT_THAT(ErrorsOf(std::string(kMostTopologyBytes + 1, '#')),
              ElementsAre(HasSubstr("too large")));
}

TEST(TopologyText, NamesThePathThatCannotBeRead) {
  const std::string folder = testing::TempDir();
  const auto absent = ReadTopologyText(folder + "/absent.yaml");
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("absent.yaml"));
  EXPECT_EQ(ReadTopologyText(folder).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(folder + "/topology.yaml") << kGood;
  EXPECT_EQ(*ReadTopologyText(folder + "/topology.yaml"), kGood);
}

TEST(DamagedTopologyFile, IsReadOrRefused) {
  static constexpr const char* kFragments[] = {"\n",     "  ",
                                               "- ",     ": ",
                                               "{",      "}",
                                               "[",      "]",
                                               ", ",     "#",
                                               "\"",     "null",
                                               "-1",     "1e999",
                                               "\xff",   "&a ",
                                               "n[0-3]", "{i}",
                                               "\t",     "\r\n",
                                               "zone",   "99999999999999999999"};
  int refused = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string text = kGood;
    for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text.erase(at, random() % 12);
      } else {
        text.insert(at, kFragments[random() % std::size(kFragments)]);
      }
    }
    const absl::StatusOr<Description> description = ReadTopologyFile(text, "t.yaml");
    if (!description.ok()) {
      ++refused;
      ASSERT_EQ(description.status().code(), absl::StatusCode::kInvalidArgument) << text;
      continue;
    }
    const absl::StatusOr<Cluster> cluster = Cluster::Make(*description);
    ASSERT_TRUE(cluster.ok()) << cluster.status() << text;
  }
  EXPECT_GT(refused, 1500);
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace strata::topology
