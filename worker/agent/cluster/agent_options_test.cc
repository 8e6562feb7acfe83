#include "worker/agent/cluster/agent_options.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string ProblemOf(const std::vector<std::string>& arguments) {
  return std::string(ParseClusterOptions(arguments).status().message());
}

TEST(AgentOptionsTest, AllThatIsGivenIsTaken) {
  const auto options =
      ParseClusterOptions({"--controller", "host:7070", "--node", "n1", "--dir", "/d", "--devices",
                           "4", "--threads-per-device", "2", "--locality", "region=eu,zone=a"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->controller, "host:7070");
  EXPECT_EQ(options->node, "n1");
  EXPECT_EQ(options->directory, "/d");
  EXPECT_EQ(options->devices, 4);
  EXPECT_EQ(options->threads_per_device, 2);
  EXPECT_THAT(options->locality, ElementsAre(Pair("region", "eu"), Pair("zone", "a")));
}

TEST(AgentOptionsTest, FlagsWithoutAValueStandAnywhere) {
  const auto options =
      ParseClusterOptions({"--rejoin", "--controller", "h:1", "--node", "n", "--dir", "d",
                           "--on-sigterm", "drain", "--drain-seconds", "9"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->rejoin);
  EXPECT_EQ(options->on_sigterm, OnSigterm::kDrain);
  EXPECT_EQ(options->drain_seconds, 9);
}

TEST(AgentOptionsTest, DevicesAreOfTheCpuOrGpus) {
  const std::vector<std::string> rest = {"--controller", "h:1", "--node", "n", "--dir", "d"};
  for (const auto& [text, choice] :
       {std::pair("gpu", DeviceChoice::kGpu), std::pair("auto", DeviceChoice::kAuto)}) {
    std::vector<std::string> arguments = {"--devices", text, "--nvml", "/opt/lib/nvml.so"};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const auto options = ParseClusterOptions(arguments);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->choice, choice);
    EXPECT_EQ(options->nvml, "/opt/lib/nvml.so");
  }
  for (const char* text : {"0", "gpus", "1025", ""}) {
    EXPECT_THAT(ProblemOf({"--devices", text}), HasSubstr("is no number from 1 to 1024, nor gpu"));
  }
}

TEST(AgentOptionsTest, AsWhomJobsRun) {
  const auto options = ParseClusterOptions(
      {"--controller", "h:1", "--node", "n", "--dir", "d", "--run-as", "user", "--unit-property",
       "MemoryMax=1G", "--unit-property", "TasksMax=9", "--data-devices", "eth1"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->run_as, RunAs::kUser);
  EXPECT_THAT(options->unit_properties, ElementsAre("MemoryMax=1G", "TasksMax=9"));
  EXPECT_EQ(options->data_devices, "eth1");
  EXPECT_THAT(ProblemOf({"--run-as", "root"}), HasSubstr("'root' is not user, daemon or auto"));
  EXPECT_THAT(ProblemOf({"--unit-property", "x"}), HasSubstr("'x' is not NAME=VALUE"));
}

TEST(AgentOptionsTest, WhatIsNotGivenHasADefault) {
  const auto options = ParseClusterOptions({"--controller", "h:1", "--node", "n", "--dir", "d"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->choice, DeviceChoice::kCpu);
  EXPECT_EQ(options->devices, 1);
  EXPECT_EQ(options->threads_per_device, 0);
  EXPECT_TRUE(options->locality.empty());
  EXPECT_EQ(options->on_sigterm, OnSigterm::kHandOver);
  EXPECT_FALSE(options->rejoin);
}

TEST(AgentOptionsTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(ProblemOf({"--controller", "h:1", "--node", "n"}), HasSubstr("--dir: missing"));
  EXPECT_THAT(ProblemOf({"--controller", "h", "--node", "n", "--dir", "d"}),
              HasSubstr("HOST:PORT"));
  EXPECT_THAT(ProblemOf({"--devices", "0"}), HasSubstr("--devices: '0'"));
  EXPECT_THAT(ProblemOf({"--devices"}), HasSubstr("--devices: its value is missing"));
  EXPECT_THAT(ProblemOf({"--locality", "zone"}), HasSubstr("'zone' is not LEVEL=VALUE"));
  EXPECT_THAT(ProblemOf({"--locality", "a=1,a=2"}), HasSubstr("a is given twice"));
  EXPECT_THAT(ProblemOf({"--on-sigterm", "x"}), HasSubstr("'x' is not handover or drain"));
  EXPECT_THAT(
      ProblemOf({"--controller", "h:1", "--node", "n", "--dir", "d", "--tls-authority", "a.pem"}),
      HasSubstr("TLS needs all three"));
  const std::string join = "ab.cd@sha256:" + std::string(64, '0');
  const auto joining = [](const std::string& controller, const std::string& token) {
    return std::vector<std::string>{"--controller", controller, "--node", "n",
                                    "--dir",        "d",        "--join", token};
  };
  EXPECT_EQ(ParseClusterOptions(joining("h:1", join))->join, join);
  EXPECT_THAT(ProblemOf(joining("unix:/a", join)), HasSubstr("HOST:PORT only"));
  const std::string file = testing::TempDir() + "/join-token";
  std::ofstream(file) << join << "\n";
  EXPECT_EQ(ParseClusterOptions(joining("h:1", "@" + file))->join, join);
  EXPECT_THAT(ProblemOf(joining("h:1", "@/none")), HasSubstr("/none: No such file"));
  for (const std::string bad : {"ab.cd", "ab@sha256:00", "ab.cd@sha256:00", "@"}) {
    EXPECT_THAT(ProblemOf(joining("h:1", bad)), HasSubstr("ID.SECRET@sha256:DIGEST")) << bad;
  }
  EXPECT_THAT(ProblemOf({"--nodes", "x"}), HasSubstr("--nodes: no such flag"));
}

}  // namespace
}  // namespace strata::worker
