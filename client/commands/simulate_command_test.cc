#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/commands/command_test_support.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

Outcome Simulate(std::vector<std::string> typed) {
  typed.insert(typed.begin(), "simulate");
  return RunTyped(typed);
}

TEST(SimulateCommand, GivesTheSameReportForTheSameSeed) {
  const std::vector<std::string> typed = {"--nodes", "16",     "--days", "0.5", "--failure-rate",
                                          "50",      "--seed", "3",      "-o",  "json"};
  const Outcome got = Simulate(typed);
  ASSERT_EQ(got.code, 0) << got.err;
  const nlohmann::json report = nlohmann::json::parse(got.out);
  EXPECT_EQ(report["nodes"], 16);
  EXPECT_EQ(report["devices"], 128);
  EXPECT_EQ(report["violation"], "");
  EXPECT_GT(report["jobs_started"], 0);
  EXPECT_GT(report["utilisation"], 0);
  EXPECT_EQ(Simulate(typed).out, got.out);
}

TEST(SimulateCommand, RunsATraceOnATopologyFile) {
  const std::string map = FileWith("sim.yaml", R"(levels: [zone]
nodes:
  - {name: "n[0-3]", at: {zone: "z{i/2}"}, device: a100, devices: 4}
)");
  const std::string trace = FileWith(
      "sim.csv", "name,submit_seconds,nodes,tensor,steps,seconds_per_step\na,5,4,4,60,10\n");
  const Outcome got =
      Simulate({"--topology", map, "--trace", trace, "--no-failures", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const nlohmann::json report = nlohmann::json::parse(got.out);
  EXPECT_EQ(report["jobs"][0]["name"], "a");
  EXPECT_EQ(report["jobs"][0]["state"], "SUCCEEDED");
  EXPECT_EQ(report["jobs"][0]["productive_seconds"], 600);
}

TEST(SimulateCommand, RunsOnAMapThatSaysNothingAboutDevices) {
  const std::string map = FileWith("block.conf", "BlockName=b1 Nodes=n[1-2]\nBlockSizes=2\n");
  EXPECT_EQ(Simulate({"--topology", map}).code, 2);
  const Outcome got = Simulate({"--topology", map, "--device", "h100", "--devices", "4", "--days",
                                "0.01", "--no-failures", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(nlohmann::json::parse(got.out)["devices"], 8);
}

TEST(SimulateCommand, TellsProblemsOfATraceAtTheirPlaces) {
  const std::string trace =
      FileWith("bad.csv", "name,submit_seconds,nodes,steps,seconds_per_step\na,x,1,1,1\n");
  const Outcome got = Simulate({"--trace", trace});
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr("bad.csv:2:3: submit_seconds: x"));
  EXPECT_EQ(Simulate({"--trace", "/nowhere.csv"}).code, 2);
}

TEST(SimulateCommand, RefusesWhatDoesNotFitTogether) {
  EXPECT_EQ(Simulate({"--job-nodes", "100"}).code, 3);
  EXPECT_EQ(Simulate({"--job-nodes", "1", "--seeds", "1"}).code, 2);
  EXPECT_EQ(Simulate({"--topology", "x", "--nodes", "1"}).code, 2);
  EXPECT_EQ(Simulate({"--device", "h100"}).code, 2);
  const Outcome unheeded = Simulate({"--seeds", "1", "--nodes", "9"});
  EXPECT_EQ(unheeded.code, 2);
  EXPECT_THAT(unheeded.err, HasSubstr("--nodes"));
}

TEST(SimulateCommand, CountsViolationsOverSeeds) {
  const Outcome got = Simulate({"--seeds", "3", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(nlohmann::json::parse(got.out)["seeds"], 3);
  EXPECT_EQ(nlohmann::json::parse(got.out)["violations"], 0);
}

TEST(SimulateCommand, ComparesBuffers) {
  const Outcome got = Simulate({"--nodes", "24", "--days", "2", "--failure-rate", "100", "--load",
                                "1.5", "--buffer", "0,1,25%", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const nlohmann::json report = nlohmann::json::parse(got.out);
  EXPECT_EQ(report["level"], "zone");
  ASSERT_EQ(report["buffers"].size(), 3);
  EXPECT_EQ(report["buffers"][2]["nodes"], "25%");
  const auto of = [&](int i) { return report["buffers"][i]["report"]; };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(of(i)["violation"], "") << i;
  EXPECT_GT(of(0)["waits"]["nodes"]["jobs"], 0);
  // More nodes than are ever away at once: what fails finds another node at once, and jobs get
  // less.
  EXPECT_LT(of(2)["waits"]["nodes"]["mean_seconds"], of(0)["waits"]["nodes"]["mean_seconds"]);
  EXPECT_LT(of(2)["allocation"], of(0)["allocation"]);
  EXPECT_EQ(Simulate({"--buffer", "0,x"}).code, 2);
  EXPECT_EQ(Simulate({"--buffer", "1", "--buffer-level", "aisle"}).code, 2);
  EXPECT_EQ(Simulate({"--buffer-level", "zone"}).code, 2);
}

TEST(SimulateCommand, RunsUnderAPolicy) {
  const std::string policy = FileWith("sim_policy.yaml",
                                      "queues: [{name: batch, preemptible: true}]\n"
                                      "scheduling: {buffer: {level: zone, nodes: 2}}\n");
  const std::string trace = FileWith("sim_queue.csv",
                                     "name,submit_seconds,nodes,steps,seconds_per_step,queue\n"
                                     "a,5,4,60,10,default\nb,5,4,60,10,batch\n");
  const Outcome got = Simulate(
      {"--nodes", "4", "--trace", trace, "--policy", policy, "--no-failures", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const nlohmann::json report = nlohmann::json::parse(got.out);
  ASSERT_EQ(report["jobs"].size(), 1u) << "only the preemptible one may take the buffer";
  EXPECT_EQ(report["jobs"][0]["name"], "b");
  const std::string bad =
      FileWith("sim_bad.yaml", "scheduling: {buffer: {level: aisle, nodes: 2}}\n");
  EXPECT_EQ(Simulate({"--policy", bad}).code, 2);
}

TEST(SimulateCommand, ExplainsItsAssumptions) {
  const Outcome got = Simulate({"--explain"});
  EXPECT_EQ(got.code, 0);
  EXPECT_THAT(got.out, HasSubstr("3.79 per 1,000 node-days"));
  EXPECT_THAT(got.out, HasSubstr("GPU HBM3 memory             72"));
}

}  // namespace
}  // namespace strata::client
