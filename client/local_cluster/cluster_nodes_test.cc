#include "client/local_cluster/cluster_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace strata::client {
namespace {

using testing::HasSubstr;

absl::StatusOr<LocalTopology> Read(const std::string& text) {
  const std::string file = testing::TempDir() + "cluster-nodes-map.yaml";
  std::ofstream(file) << text;
  return ReadLocalTopology(file);
}

std::string ProblemOf(const std::string& text) {
  const auto read = Read(text);
  EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
  return std::string(read.status().message());
}

TEST(ReadLocalTopology, NodesKeepNamesDevicesAndPlaces) {
  const auto read = Read(
      "levels: [zone, rack]\nnodes:\n"
      "  - {name: \"n[0-2]\", at: {zone: \"z{i/2}\"}, device: cpu, devices: 2}\n");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->nodes.size(), 3u);
  EXPECT_EQ(read->nodes[2], (ClusterNode{"n2", 2, {{"zone", "z1"}}}));
  EXPECT_EQ(read->notice, "");
}

TEST(ReadLocalTopology, NodesThatThisMachineCannotPlayAreRefused) {
  EXPECT_THAT(ProblemOf("nodes: [{name: n0, device: h100, devices: 8}]\n"),
              HasSubstr("nodes: n0 with device h100: the agents that strata up starts have CPU "
                        "devices only"));
  EXPECT_THAT(ProblemOf("nodes: [{name: controller, device: cpu, devices: 1}]\n"),
              HasSubstr("controller: a node's name here is"));
  EXPECT_THAT(ProblemOf("nodes: [{name: a/b, device: cpu, devices: 1}]\n"), HasSubstr("a/b"));
  EXPECT_THAT(ProblemOf("levels: [zone]\nnodes:\n"
                        "  - {name: n0, at: {zone: \"a,b\"}, device: cpu, devices: 1}\n"),
              HasSubstr("holds a comma"));
  EXPECT_THAT(ProblemOf("nodes: [{name: \"n[0-1024]\", device: cpu, devices: 1}]\n"),
              HasSubstr("1025 are more than the 1024"));
}

TEST(ReadLocalTopology, TheFilesOwnProblemsStandAtTheirPlaces) {
  EXPECT_THAT(ProblemOf("nodes:\n  - {nam: n0, device: cpu, devices: 1}\n"),
              HasSubstr("cluster-nodes-map.yaml:2:"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadLocalTopology("/nowhere/map.yaml").status()));
}

}  // namespace
}  // namespace strata::client
