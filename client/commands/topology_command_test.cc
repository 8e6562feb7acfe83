#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/api/fake_server.h"
#include "client/commands/command_test_support.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

Outcome Topology(std::vector<std::string> typed) {
  typed.insert(typed.begin(), "topology");
  return RunTyped(typed);
}

std::string Small() {
  return FileWith("small.yaml", R"(levels: [zone, domain]
links: {zone: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}}
nodes:
  - {name: n10, at: {zone: z0, domain: d1}, device: h100, devices: 8, free: 3}
  - {name: n2, at: {zone: z0, domain: d0}, device: h100, devices: 8}
  - {name: n3, at: {zone: z1}, device: a100, devices: 4, healthy: false}
)");
}

TEST(TopologyCommand, DrawsATreeWithTotalsLevelsAndLinks) {
  const Outcome got = Topology({"--from", Small()});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("3 nodes, 4 a100 + 16 h100, 11 free, 1 node not healthy\n"));
  EXPECT_THAT(got.out, HasSubstr("7.00 GB/s"));
  EXPECT_THAT(got.out, HasSubstr("1:7"));
  EXPECT_THAT(got.out, HasSubstr("├─ zone z0  2 nodes, 16 h100, 11 free\n"
                                 "│  ├─ domain d0  1 node, 8 h100, all free\n"
                                 "│  │  └─ n2  1 node, 8 h100, all free\n"));
  EXPECT_THAT(got.out, HasSubstr("(no domain)"));
}

TEST(TopologyCommand, NamesNodesInTheOrderOfTheTree) {
  EXPECT_EQ(Topology({"--from", Small(), "-o", "name"}).out, "n2\nn10\nn3\n");
}

TEST(TopologyCommand, FoldsLargeClustersIntoAboutSixtyLines) {
  const std::string path = FileWith("large.yaml", R"(levels: [zone, rack, domain]
nodes:
  - name: "n[0-12499]"
    at: {zone: "z{i/384}", rack: "r{i/16}", domain: "d{i/2}"}
    device: h100
    devices: 8
)");
  for (const char* output : {"tree", "table"}) {
    const Outcome got = Topology({"--from", path, "-o", output});
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_LE(std::count(got.out.begin(), got.out.end(), '\n'), 60) << output;
    EXPECT_THAT(got.out, HasSubstr("-o yaml lists all")) << output;
  }
  EXPECT_THAT(Topology({"--from", path}).out, HasSubstr("12500 nodes, 100000 h100, all free"));
}

TEST(TopologyCommand, YamlIsATopologyFileThatGivesTheSameMap) {
  const Outcome first = Topology({"--from", Small(), "-o", "yaml"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome second = Topology({"--from", FileWith("again.yaml", first.out), "-o", "yaml"});
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(Topology({"--from", FileWith("again.yaml", first.out)}).out,
            Topology({"--from", Small()}).out);
}

TEST(TopologyCommand, JsonHasLevelsGroupsLinksAndNodes) {
  const auto json = nlohmann::json::parse(Topology({"--from", Small(), "-o", "json"}).out);
  EXPECT_EQ(json["levels"], nlohmann::json({"zone", "domain"}));
  EXPECT_EQ(json["domain_level"], "domain");
  EXPECT_EQ(json["pipeline_level"], "zone");
  EXPECT_EQ(json["links"]["zone"]["oversubscription"], 7);
  EXPECT_EQ(json["groups"]["zone"], 2);
  EXPECT_EQ(json["groups"]["domain"], 3);
  ASSERT_EQ(json["nodes"].size(), 3u);
  EXPECT_EQ(json["nodes"][1]["name"], "n10");
  EXPECT_EQ(json["nodes"][1]["free"], nlohmann::json({0, 1, 2}));
  EXPECT_EQ(json["nodes"][2]["at"], nlohmann::json({{"zone", "z1"}}));
  EXPECT_EQ(json["nodes"][2]["healthy"], false);
}

TEST(TopologyCommand, TakesWhatOtherSystemsWrite) {
  const std::string path = FileWith("topology.conf", "SwitchName=s0 Nodes=n[0-3]\n");
  const Outcome without = Topology({"--from", path});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--device KIND --devices N"));
  const Outcome got = Topology({"--from", path, "--device", "h100", "--devices", "8"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("tier0 s0  4 nodes, 32 h100, all free"));
}

TEST(TopologyCommand, ErrorsHaveTheContractsExitCodes) {
  const Outcome invalid =
      Topology({"--from", FileWith("bad.yaml", "nodes:\n- {name: a, device: b, devises: 1}\n")});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_THAT(invalid.err, HasSubstr("bad.yaml:2:24: nodes[0].devises: unknown field"));
  EXPECT_EQ(Topology({"--from", testing::TempDir() + "absent.yaml"}).code, 2);
  const Outcome twice =
      Topology({"--from", FileWith("twice.json", R"({"apiVersion": "v1", "items": [
    {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]})"),
                "--device", "h100", "--devices", "8"});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("twice.json: a: two nodes have this name"));
  EXPECT_EQ(Topology({"--server", "127.0.0.1:1"}).code, 6);
}

TEST(TopologyCommand, ProbeShowsThisMachine) {
  const Outcome got = Topology({"--probe"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("NUMA node"));
  const auto json = nlohmann::json::parse(Topology({"--probe", "-o", "json"}).out);
  EXPECT_TRUE(json["accelerators"].is_array());
  EXPECT_TRUE(json["disks"].is_array());
  EXPECT_GE(json["numa_nodes"].size(), 1u);
  EXPECT_EQ(Topology({"--probe", "--from", Small()}).code, 2);
}

TEST(TopologyCommand, WithoutAFileShowsTheRunningCluster) {
  FakeServer server;
  v1::Topology map;
  map.add_levels("zone");
  map.add_levels("rack");
  map.set_domain_level("rack");
  map.set_pipeline_level("zone");
  (*map.mutable_links())["zone"].set_bytes_per_second(1e9);
  (*map.mutable_links())["zone"].set_oversubscription(1);
  for (int i = 0; i < 3; ++i) {
    v1::Topology::Node& node = *map.add_nodes();
    node.set_name(absl::StrCat("n", i));
    node.add_at("a");
    node.add_at(absl::StrCat("r", i));
    node.set_device("cpu");
    node.set_devices(2);
    node.add_free(1);
    node.set_healthy(i != 2);
  }
  server.Put(map);
  const Outcome got = Topology({"-o", "json", "--server", server.address().ToString()});
  ASSERT_EQ(got.code, 0) << got.err;
  const auto json = nlohmann::json::parse(got.out);
  EXPECT_EQ(json["levels"], nlohmann::json({"zone", "rack"}));
  ASSERT_EQ(json["nodes"].size(), 3u);  // of two pages
  EXPECT_EQ(server.calls("GetTopology"), 2);
  EXPECT_EQ(json["links"]["zone"]["bytes_per_second"], 1e9);
  EXPECT_EQ(json["nodes"][1]["free"], nlohmann::json::array({1}));
  EXPECT_EQ(json["nodes"][2]["healthy"], false);
  EXPECT_EQ(json["nodes"][0]["at"]["rack"], "r0");
}

}  // namespace
}  // namespace strata::client
