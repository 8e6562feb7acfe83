#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/commands/command_test_support.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two zones of four nodes of eight; node 7 is not healthy.
std::string Cluster() {
  std::string text = R"(levels: [zone, domain]
links:
  zone: {bytes_per_second: 50e9, latency_seconds: 5e-6}
  root: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}
nodes:
)";
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&text, "  - {name: n", i, ", at: {zone: z", i / 4, ", domain: d", i,
                    "}, device: h100, devices: 8", i == 7 ? ", healthy: false" : "", "}\n");
  }
  return FileWith("cluster.yaml", text);
}

std::string Job(const std::string& parallel, const std::string& more = "") {
  return FileWith("job.yaml",
                  absl::StrCat(R"(model: {family: llama, layers: 4, hidden: 64, heads: 8,
  ffn: 128, vocab: 256, context: 64}
data: {train: [{path: nowhere.txt}]}
train: {sequence: 64, global_batch: 32, micro_batch: 1, precision: bf16}
parallel: )",
                               parallel, "\nresources: {device: gpu", more, "}\n"));
}

Outcome Place(const std::string& cluster, const std::string& job, const std::string& output,
              const std::vector<std::string>& settings = {}) {
  std::vector<std::string> typed = {"place", "--topology", cluster, "--job", job, "-o", output};
  for (const std::string& setting : settings) typed.insert(typed.end(), {"--set", setting});
  return RunTyped(typed);
}

TEST(PlaceCommand, TellsRanksTrafficAndOtherOrders) {
  const Outcome got =
      Place(Cluster(), Job("{tensor: 8, pipeline: 2, data: 2}", ", spares: 1"), "json");
  ASSERT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  EXPECT_EQ(told["decision"], "placed");
  EXPECT_THAT(told["order"].get<std::vector<std::string>>(),
              ElementsAre("tensor", "context", "pipeline", "data"));
  ASSERT_EQ(told["ranks"].size(), 32);
  std::set<std::pair<std::string, int>> devices;
  for (const json& rank : told["ranks"]) {
    devices.emplace(rank["node"].get<std::string>(), rank["device"].get<int>());
    EXPECT_EQ(rank["device"], rank["tensor"]);
  }
  EXPECT_EQ(devices.size(), 32);
  EXPECT_EQ(told["spares"].size(), 1);
  std::vector<std::string> levels;
  for (const auto& [level, bytes] : told["bytes_per_step"].items()) levels.push_back(level);
  EXPECT_THAT(levels, testing::UnorderedElementsAre("domain", "zone", "root"));
  EXPECT_EQ(told["bytes_per_step"]["root"], 0);  // four nodes fit into zone 0
  for (const char* name : {"contiguous", "random", "hostname"}) {
    std::vector<std::string> same;
    for (const auto& [level, bytes] : told["compared"][name].items()) same.push_back(level);
    EXPECT_EQ(same, levels) << name;
    EXPECT_TRUE(told["compared_exposed_seconds"].contains(name));
  }
  EXPECT_EQ(told["traffic"]["pipeline"]["pattern"], "line");
  EXPECT_GT(told["traffic"]["data"]["bytes_per_edge"], 0);
}

TEST(PlaceCommand, TellsHowLongAStepTakesInEachOrder) {
  const std::string job = Job("{tensor: 8, pipeline: 2, data: 2}");
  const json told = json::parse(Place(Cluster(), job, "json").out);
  const double placed = told["step_seconds"];
  EXPECT_GT(placed, told["exposed_seconds"]);
  for (const char* name : {"contiguous", "random", "hostname"}) {
    EXPECT_GE(told["compared_step_seconds"][name], placed) << name;
  }
  EXPECT_THAT(Place(Cluster(), job, "table").out, testing::ContainsRegex("exposed +step"));
  // Of CPUs nobody knows it.
  const std::string map = FileWith("cpus.yaml", R"(levels: [domain]
nodes:
  - {name: "a[0-3]", at: {domain: "d{i}"}, device: cpu, devices: 8}
)");
  const Outcome of_cpus = Place(map, job, "json", {"resources.device=cpu"});
  EXPECT_TRUE(json::parse(of_cpus.out)["step_seconds"].is_null()) << of_cpus.err;
  EXPECT_THAT(Place(map, job, "table", {"resources.device=cpu"}).out,
              Not(testing::ContainsRegex("exposed +step")));
}

TEST(PlaceCommand, ForPeopleTellsZonesAndBytes) {
  const Outcome got = Place(Cluster(), Job("{tensor: 8, pipeline: 2, data: 2}"), "table");
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("placed: 32 ranks on 4 nodes (h100)"));
  EXPECT_THAT(got.out, HasSubstr("contiguous"));
  EXPECT_THAT(got.out, HasSubstr("z0/d0/n0"));
}

TEST(PlaceCommand, TellsSplitsOfTheOtherOrdersToo) {
  const std::string job = Job("{tensor: 8, pipeline: 2, data: 2}");
  const json told = json::parse(Place(Cluster(), job, "json").out);
  for (const char* name : {"contiguous", "random", "hostname"}) {
    EXPECT_EQ(told["compared_split_pipelines"][name], 0);
    EXPECT_EQ(told["compared_split_contexts"][name], 0);
  }
  EXPECT_THAT(Place(Cluster(), job, "table").out, Not(HasSubstr("split pipelines")));
  // Three and five nodes: one of four pipelines of two must lie across.
  const std::string map = FileWith("six.yaml", R"(levels: [zone, domain]
nodes:
  - {name: "a[0-2]", at: {zone: z0, domain: "d{i}"}, device: h100, devices: 8}
  - {name: "b[0-4]", at: {zone: z1, domain: "d{i}"}, device: h100, devices: 8}
)");
  const std::string four = Job("{tensor: 8, pipeline: 2, data: 4}");
  EXPECT_EQ(json::parse(Place(map, four, "json").out)["split_pipelines"], 1);
  EXPECT_THAT(Place(map, four, "table").out, HasSubstr("split pipelines"));
}

TEST(PlaceCommand, ContextGroupsStayWholeWhereTheyCanAndTheirRingsAreTold) {
  const json told =
      json::parse(Place(Cluster(), Job("{tensor: 8, context: 2, data: 2}"), "json").out);
  EXPECT_EQ(told["traffic"]["context"]["pattern"], "ring");
  EXPECT_GT(told["traffic"]["context"]["bytes_per_edge"], 0);
  EXPECT_EQ(told["split_contexts"], 0);
  std::map<std::pair<int, int>, std::set<std::string>> nodes;  // by context and data coordinates
  for (const json& rank : told["ranks"]) {
    nodes[{rank["context"].get<int>(), rank["data"].get<int>()}].insert(rank["node"]);
  }
  ASSERT_EQ(nodes.size(), 4);
  for (const auto& [at, of_a_group] : nodes) EXPECT_EQ(of_a_group.size(), 1);
  // Three and five nodes: one of four context groups of two must lie across.
  const std::string map = FileWith("six.yaml", R"(levels: [zone, domain]
nodes:
  - {name: "a[0-2]", at: {zone: z0, domain: "d{i}"}, device: h100, devices: 8}
  - {name: "b[0-4]", at: {zone: z1, domain: "d{i}"}, device: h100, devices: 8}
)");
  const std::string four = Job("{tensor: 8, context: 2, data: 4}");
  EXPECT_EQ(json::parse(Place(map, four, "json").out)["split_contexts"], 1);
  EXPECT_THAT(Place(map, four, "table").out, HasSubstr("split contexts"));
}

TEST(PlaceCommand, OfShardGroupsTellsBothIndices) {
  const Outcome got = Place(Cluster(), Job("{data: 4, shard: zero1, shard_group: 2}"), "json");
  ASSERT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  ASSERT_EQ(told["ranks"].size(), 4u);
  for (const json& rank : told["ranks"]) {
    EXPECT_EQ(rank["data"], rank["replicate"].get<int>() * 2 + rank["shard"].get<int>());
  }
}

TEST(PlaceCommand, ThatMustWaitForAnUnhealthyNodeIsNoFailure) {
  const Outcome got = Place(Cluster(), Job("{tensor: 8, data: 8}"), "json");
  EXPECT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  EXPECT_EQ(told["decision"], "waiting");
  EXPECT_THAT(told["reason"].get<std::string>(), HasSubstr("7 are free: n7 takes no new ranks"));
  EXPECT_EQ(told["starts_when"], "starts when n7 takes new ranks again");
}

TEST(PlaceCommand, ThatNeverFitsEndsWithThreeAndTheNearest) {
  const Outcome got = Place(Cluster(), Job("{tensor: 8, data: 16}"), "json");
  EXPECT_EQ(got.code, 3);
  const json told = json::parse(got.out);
  EXPECT_EQ(told["decision"], "infeasible");
  EXPECT_EQ(told["nearest"]["parallel"]["data"], 8);
  EXPECT_EQ(told["nearest"]["ranks"], 64);
}

TEST(PlaceCommand, OfAKindThatNoNodeHasTellsTheNearestOnAnother) {
  const Outcome got =
      Place(Cluster(), Job("{tensor: 8, data: 16}"), "json", {"resources.device=b200"});
  EXPECT_EQ(got.code, 3);
  const json told = json::parse(got.out);
  EXPECT_EQ(told["decision"], "infeasible");
  EXPECT_EQ(told["nearest"]["device"], "h100");
  EXPECT_EQ(told["nearest"]["parallel"]["data"], 8);
  EXPECT_EQ(told["nearest"]["ranks"], 64);
  EXPECT_EQ(told["nearest"]["text"],
            "device h100 instead of b200, data 8 instead of 16: 64 of 128 ranks");
}

TEST(PlaceCommand, NearestTakesAnyDataDegreeThatDividesTheBatch) {
  const Outcome got = Place(Cluster(), Job("{tensor: 8, data: 12, shard: zero1, shard_group: 4}"),
                            "json", {"train.global_batch=84"});
  EXPECT_EQ(got.code, 3) << got.err;
  const json nearest = json::parse(got.out)["nearest"];
  EXPECT_EQ(nearest["parallel"]["data"], 4);
  EXPECT_EQ(nearest["parallel"]["shard_group"], 4);
  const Outcome whole =
      Place(Cluster(), Job("{tensor: 8, data: 12}"), "json", {"train.global_batch=84"});
  EXPECT_EQ(json::parse(whole.out)["nearest"]["parallel"]["data"], 7);
  const Outcome named = Place(Cluster(), Job("{tensor: 8, data: 12, virtual_shards: 24}"), "json",
                              {"train.global_batch=48"});
  EXPECT_EQ(json::parse(named.out)["nearest"]["parallel"]["data"], 6);
}

TEST(PlaceCommand, NamesItsNodesInTheOrderOfTheirRanks) {
  const Outcome got = Place(Cluster(), Job("{tensor: 8, data: 2}"), "name");
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "n4\nn5\n");  // the tighter zone
  const Outcome never = Place(Cluster(), Job("{tensor: 8, data: 16}"), "name");
  EXPECT_EQ(never.code, 3);
  EXPECT_EQ(never.out, "");
  EXPECT_THAT(never.err, HasSubstr("needs 16 whole cells"));
}

TEST(PlaceCommand, ReadsMapsThatSayNothingAboutDevices) {
  const std::string map = FileWith("topology.conf",
                                   "SwitchName=s1 Nodes=a[1-2]\nSwitchName=s2 Nodes=a[3-4]\n"
                                   "SwitchName=root Switches=s[1-2]\n");
  const std::string job = Job("{tensor: 4, data: 2}");
  const Outcome unsaid = Place(map, job, "name");
  EXPECT_EQ(unsaid.code, 2);
  EXPECT_THAT(unsaid.err, HasSubstr("add --device KIND --devices N"));
  const Outcome got = RunTyped({"place", "--topology", map, "--job", job, "-o", "name", "--device",
                                "h100", "--devices", "4"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, "a1\na2\n");
}

TEST(PlaceCommand, TakesRanksWithoutDegreesAsDataParallel) {
  const std::string job = FileWith("ranks.yaml", R"(model: {family: llama, layers: 4, hidden: 64,
  heads: 8, ffn: 128, vocab: 256, context: 64}
data: {train: [{path: nowhere.txt}]}
train: {sequence: 64, global_batch: 32, micro_batch: 1}
resources: {device: h100, ranks: 16}
)");
  const Outcome got = Place(Cluster(), job, "json");
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(json::parse(got.out)["ranks"][15]["data"], 15);
}

TEST(PlaceCommand, OfAnImpossibleLayoutEndsWithThree) {
  const Outcome got = Place(Cluster(), Job("{data: 5}"), "json");
  EXPECT_EQ(got.code, 3);
  EXPECT_THAT(got.err, HasSubstr("global_batch 32 is not divisible by 5"));
}

TEST(PlaceCommand, OfOneDimensionTellsWhatItLeaves) {
  const std::string alone =
      FileWith("alone.yaml", "nodes: [{name: n, device: h100, devices: 4}]\n");
  EXPECT_THAT(Place(alone, Job("{data: 4}"), "table").out, HasSubstr("has no levels"));
  EXPECT_THAT(Place(Cluster(), Job("{data: 4}"), "table").out,
              HasSubstr("Nothing leaves one domain."));
  EXPECT_THAT(Place(Cluster(), Job("{tensor: 8, data: 4}"), "table").out,
              HasSubstr("Ranks count tensor, then data"));
}

TEST(PlaceCommand, OfBadFilesTellsAllProblems) {
  const Outcome got =
      Place("/nowhere.yaml", FileWith("bad.yaml", "model: {famly: llama}\n"), "json");
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr("/nowhere.yaml"));
  EXPECT_THAT(got.err, HasSubstr("famly"));
  EXPECT_EQ(got.out, "");
}

TEST(PlaceCommand, ReadsOnlyTheSizesOfAModel) {
  const std::string folder = testing::TempDir() + "place_model";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json")
      << R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256,
             "vocab_size": 256})";
  const std::string job = FileWith("from.yaml", absl::StrCat("model: {from: ", folder, R"(}
data: {train: [{path: nowhere.txt}]}
parallel: {data: 2}
resources: {device: h100}
)"));
  EXPECT_EQ(Place(Cluster(), job, "json").code, 0);
  for (const char* setting : {"parallel.tensor=8", "parallel.pipeline=4"}) {
    EXPECT_EQ(Place(Cluster(), job, "json", {setting}).code, 3) << setting;  // 4 heads, 2 layers
  }
  const Outcome missing = Place(Cluster(), FileWith("gone.yaml", R"(model: {from: /nowhere}
data: {train: [{path: nowhere.txt}]}
)"),
                                "json");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/config.json"));
}

}  // namespace
}  // namespace strata::client
