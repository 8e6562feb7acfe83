// Supervised processes that are real, of programs that are not: shell scripts with the names of
// Strata's daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/local_cluster/cluster_folder.h"
#include "client/local_cluster/ports.h"
#include "client/local_cluster/stop.h"
#include "client/local_cluster/up.h"

namespace strata::client {
namespace {

using testing::HasSubstr;

constexpr double kLongEnough = 60;  // for what must happen at some time

// Runs until it is told to stop, which it does not answer, and has a trainer as an agent would.
constexpr char kAgent[] =
    "#!/bin/bash\n"
    "[ \"$1\" = stop ] && touch \"$3/asked\" && exit 1\n"
    "(exec -a strata-trainer sleep 1000) &\n"
    "echo \"$@\" > \"$6/arguments\"\n"
    "exec -a strata-worker sleep 1000\n";
constexpr char kController[] =
    "#!/bin/bash\n"
    "echo \"$@\" > \"$6/arguments\"\n"
    "exec -a strata-controller sleep 1000\n";

constexpr char kSlowAgent[] =
    "#!/bin/bash\n"
    "[ \"$1\" = stop ] && exit 1\n"
    "sleep 1000 &\n"
    "trap 'kill $!; sleep 0.5; exit 0' TERM\n"
    "wait\n";

// A socket that listens there.
int Occupy(const ServerAddress& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(address.port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  EXPECT_EQ(listen(fd, 1), 0);
  return fd;
}

class LocalClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "local-cluster-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Install("strata-controller", kController);
    Install("strata-worker", kAgent);
    options_.directory = root_ + "/cluster";
    options_.binaries = root_;
    options_.program = std::filesystem::absolute("client/fake_strata").string();
    options_.agents = 2;
    options_.ready_seconds = kLongEnough;
    hooks_.probe = [this](const ClusterShape& shape) {
      const Processes processes = Folder().ReadProcesses();
      for (const ClusterNode& node : shape.nodes) {
        const auto found = processes.find(node.name);
        if (found == processes.end() || found->second.id.pid == 0) {
          return absl::UnavailableError("nodes");
        }
      }
      return absl::OkStatus();
    };
  }

  void TearDown() override {
    const auto stopped = Stop();
    EXPECT_TRUE(stopped.ok()) << stopped.status();
    EXPECT_TRUE(Marked().empty());
    std::filesystem::remove_all(root_);
  }

  void Install(const std::string& name, const std::string& script) {
    std::ofstream(root_ + "/" + name) << script;
    ASSERT_EQ(chmod((root_ + "/" + name).c_str(), 0755), 0);
  }

  ClusterFolder Folder() const { return ClusterFolder(options_.directory); }
  absl::StatusOr<UpResult> BringUp() { return client::BringUp(options_, hooks_, clock_); }
  absl::StatusOr<bool> Stop() {
    StopPatience patience;
    patience.trainers_seconds = 0.2;
    return StopCluster(
        Folder(), patience, [] {}, clock_);
  }
  std::vector<ProcessId> Marked() const { return ProcessesWith(Folder().Mark(), "strata"); }
  ProcessId Of(const std::string& name) const { return Folder().ReadProcesses()[name].id; }

  template <typename Condition>
  ::testing::AssertionResult Eventually(const Condition& condition) {
    const double end = clock_.Now() + kLongEnough;
    while (!condition()) {
      if (clock_.Now() > end) return ::testing::AssertionFailure() << "never";
      while (waitpid(-1, nullptr, WNOHANG) > 0) {  // supervisors are this test's children
      }
      poll(nullptr, 0, 10);
    }
    return ::testing::AssertionSuccess();
  }

  std::string Arguments(const std::string& folder) const {
    std::ifstream stream(options_.directory + "/" + folder + "/arguments");
    std::string line;
    std::getline(stream, line);
    return line;
  }

  const common::MonotonicClock clock_{};
  std::string root_;
  UpOptions options_;
  UpHooks hooks_;
};

TEST_F(LocalClusterTest, UpStartsEverythingAndDownEndsItTrainersToo) {
  const auto up = BringUp();
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_FALSE(up->adopted);
  EXPECT_EQ(up->processes.size(), 4u);
  ASSERT_TRUE(
      Eventually([&] { return ProcessesWith(Folder().Mark(), "strata-trainer").size() == 2; }));
  ASSERT_TRUE(Eventually([&] { return !Arguments("nodes/n1").empty(); }));
  EXPECT_THAT(Arguments("nodes/n1"),
              HasSubstr(absl::StrCat("--controller ", up->shape.listen.ToString(), " --node n1")));
  EXPECT_THAT(Arguments("controller"),
              HasSubstr(absl::StrCat("--listen ", up->shape.listen.ToString())));
  const auto stopped = Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(*stopped);
  EXPECT_TRUE(Marked().empty());
  EXPECT_TRUE(std::filesystem::exists(options_.directory + "/nodes/n1/asked"));
  EXPECT_FALSE(*Stop());  // nothing is left to stop
}

TEST_F(LocalClusterTest, WhatDiesIsStartedAgainOnTheSamePort) {
  const auto up = BringUp();
  ASSERT_TRUE(up.ok()) << up.status();
  for (const std::string name : {"controller", "n0"}) {
    const ProcessId before = Of(name);
    ASSERT_TRUE(SendSignal(before, SIGKILL));
    EXPECT_TRUE(Eventually([&] { return Of(name).pid != 0 && !(Of(name) == before); })) << name;
  }
  EXPECT_THAT(Arguments("controller"), HasSubstr(up->shape.listen.ToString()));
}

TEST_F(LocalClusterTest, ANodeNamedInNoRestartStaysDead) {
  options_.no_restart = {"n1"};
  ASSERT_TRUE(BringUp().ok());
  ASSERT_TRUE(SendSignal(Of("n1"), SIGKILL));
  EXPECT_TRUE(Eventually([&] { return Folder().ReadProcesses()["n1"].restarts == 1; }));
  const ProcessId before = Of("n0");
  ASSERT_TRUE(SendSignal(before, SIGKILL));  // the other one comes back, and n1 has not
  EXPECT_TRUE(Eventually([&] { return Of("n0").pid != 0 && !(Of("n0") == before); }));
  EXPECT_EQ(Of("n1").pid, 0);
}

TEST_F(LocalClusterTest, ASecondUpAdoptsALiveCluster) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->adopted);
  EXPECT_EQ(second->processes.at("n0").id, first->processes.at("n0").id);
  options_.agents = 3;
  EXPECT_TRUE(absl::IsFailedPrecondition(BringUp().status()));
}

TEST_F(LocalClusterTest, MembersOutliveAKilledSupervisorAndTheNextOneAdoptsThem) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  const ProcessId supervisor = Of("supervisor");
  ASSERT_TRUE(SendSignal(supervisor, SIGKILL));
  ASSERT_TRUE(Eventually([&] { return !IsAlive(supervisor); }));
  EXPECT_TRUE(IsAlive(first->processes.at("n0").id));
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->adopted);
  EXPECT_EQ(second->processes.at("controller").id, first->processes.at("controller").id);
  EXPECT_EQ(second->processes.at("n1").id, first->processes.at("n1").id);
  ASSERT_TRUE(SendSignal(Of("n1"), SIGKILL));  // one that is not its child
  EXPECT_TRUE(Eventually(
      [&] { return Of("n1").pid != 0 && !(Of("n1") == second->processes.at("n1").id); }));
}

TEST_F(LocalClusterTest, DownEndsWhatAKilledSupervisorLeft) {
  ASSERT_TRUE(BringUp().ok());
  const ProcessId supervisor = Of("supervisor");
  ASSERT_TRUE(SendSignal(supervisor, SIGKILL));
  ASSERT_TRUE(Eventually([&] { return !IsAlive(supervisor); }));
  const auto stopped = Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(*stopped);
  EXPECT_TRUE(Marked().empty());
}

TEST_F(LocalClusterTest, StoppedProcessesAreEndedToo) {
  ASSERT_TRUE(BringUp().ok());
  for (const ProcessId& process : Marked()) ASSERT_TRUE(SendSignal(process, SIGSTOP));
  StopPatience patience;
  patience.supervisor_seconds = kLongEnough;  // it acts on SIGTERM all the same
  EXPECT_TRUE(StopCluster(
                  Folder(), patience, [] {}, clock_)
                  .ok());
  EXPECT_TRUE(Marked().empty());
}

TEST_F(LocalClusterTest, ProcessesOfARemovedFolderAreEndedByDown) {
  ASSERT_TRUE(BringUp().ok());
  std::filesystem::remove_all(options_.directory);
  const auto stopped = Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(*stopped);
  EXPECT_TRUE(Marked().empty());
}

TEST_F(LocalClusterTest, ProcessesOfARemovedFolderAreEndedByTheNextUp) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove_all(options_.directory);
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->adopted);
  for (const auto& [name, process] : first->processes) EXPECT_FALSE(IsAlive(process.id)) << name;
  EXPECT_EQ(second->shape.listen.ToString(), first->shape.listen.ToString());
}

// A copied folder lists the original's processes in its files.
TEST_F(LocalClusterTest, ACopyOfALiveFolderIsAClusterThatIsDown) {
  options_.listen = *ChoosePort("127.0.0.1", 7, {});
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  const Processes before = Folder().ReadProcesses();
  const std::string original = options_.directory;
  options_.directory = root_ + "/copy";
  std::filesystem::copy(original, options_.directory, std::filesystem::copy_options::recursive);
  EXPECT_TRUE(Folder().ReadProcesses().empty());
  EXPECT_EQ(Folder().RunningOriginal(), original);
  const auto stopped = Stop();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_FALSE(*stopped);
  for (const auto& [name, process] : before) EXPECT_TRUE(IsAlive(process.id)) << name;

  const int fd = Occupy(first->shape.listen);  // as the original's controller does
  std::string said;
  hooks_.say = [&](const std::string& text) { said += text + "\n"; };
  options_.listen.reset();
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->adopted);
  EXPECT_THAT(said, HasSubstr("is a copy of " + original));
  EXPECT_NE(second->shape.listen.port, first->shape.listen.port);
  for (const auto& [name, process] : before) {
    EXPECT_TRUE(IsAlive(process.id)) << name;
    EXPECT_FALSE(second->processes.at(name).id == process.id) << name;
  }
  EXPECT_EQ(Folder().RunningOriginal(), "");
  ASSERT_TRUE(Stop().ok());
  for (const auto& [name, process] : before) EXPECT_TRUE(IsAlive(process.id)) << name;
  close(fd);
  options_.directory = original;
}

TEST_F(LocalClusterTest, EachFolderHasASocketOfItsOwn) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->shape.listen.path, *Folder().SocketPath());
  EXPECT_TRUE(first->shape.own_socket);
  ASSERT_TRUE(Stop().ok());
  const std::string original = options_.directory;
  options_.directory = root_ + "/copy";
  std::filesystem::copy(original, options_.directory, std::filesystem::copy_options::recursive);
  const auto copy = BringUp();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->shape.listen.path, *Folder().SocketPath());
  EXPECT_NE(copy->shape.listen.path, first->shape.listen.path);
  ASSERT_TRUE(Stop().ok());
  options_.listen = *ChoosePort("127.0.0.1", 7, {});
  const auto asked = BringUp();
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_FALSE(asked->shape.listen.is_unix());
  ASSERT_TRUE(Stop().ok());
  options_.listen.reset();
  EXPECT_EQ(BringUp()->shape.listen.ToString(), asked->shape.listen.ToString());  // as before
}

TEST_F(LocalClusterTest, ARenamedFolderKeepsItsProcesses) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string before = options_.directory;
  std::filesystem::rename(before, before + "-renamed");
  EXPECT_EQ(ClusterFolder(before + "-renamed").ReadProcesses(), first->processes);
  EXPECT_EQ(ClusterFolder(before + "-renamed").RunningOriginal(), "");
  std::filesystem::rename(before + "-renamed", before);
}

TEST_F(LocalClusterTest, UpDuringDownWaitsForItsEndAndStartsAnew) {
  Install("strata-worker", kSlowAgent);
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  absl::StatusOr<bool> stopped = false;
  std::thread down([&] { stopped = Stop(); });
  EXPECT_TRUE(Eventually([&] { return Folder().IsStopping(); }));
  const auto second = BringUp();
  down.join();
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->adopted);
  for (const auto& [name, process] : first->processes) EXPECT_FALSE(IsAlive(process.id)) << name;
  for (const auto& [name, process] : second->processes) EXPECT_TRUE(IsAlive(process.id)) << name;
}

TEST_F(LocalClusterTest, ASupervisorThatIsAskedToStopWhileItIsAdoptedIsReplaced) {
  Install("strata-worker", kSlowAgent);
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto all_are_there = hooks_.probe;
  bool asked = false;
  hooks_.probe = [&](const ClusterShape& shape) {
    if (!asked) asked = SendSignal(Of("supervisor"), SIGTERM);
    return IsAlive(first->processes.at("supervisor").id) ? absl::UnavailableError("nodes")
                                                         : all_are_there(shape);
  };
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->adopted);
  for (const auto& [name, process] : second->processes) EXPECT_TRUE(IsAlive(process.id)) << name;
}

TEST_F(LocalClusterTest, AStoppedSupervisorWhoseAgentsWereKilledEndsWhenItIsTold) {
  ASSERT_TRUE(BringUp().ok());
  ASSERT_TRUE(SendSignal(Of("supervisor"), SIGSTOP));
  for (const char* name : {"n0", "n1"}) ASSERT_TRUE(SendSignal(Of(name), SIGKILL));
  StopPatience patience;
  patience.supervisor_seconds = kLongEnough;
  EXPECT_TRUE(StopCluster(
                  Folder(), patience, [] {}, clock_)
                  .ok());
  EXPECT_TRUE(Marked().empty());
  std::ifstream log(Folder().LogOf("supervisor"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(log), {}),
              HasSubstr("all processes have ended"));
}

TEST_F(LocalClusterTest, AnAddressThatOthersReachIsRefusedBeforeAnythingIsMade) {
  options_.listen = ServerAddress{"0.0.0.0", 31'999};
  const auto up = BringUp();
  EXPECT_TRUE(absl::IsInvalidArgument(up.status())) << up.status();
  EXPECT_THAT(std::string(up.status().message()), HasSubstr("--insecure-listen"));
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
}

TEST_F(LocalClusterTest, ADamagedDescriptionSaysWhatToDoAboutIt) {
  ASSERT_TRUE(BringUp().ok());
  ASSERT_TRUE(Stop().ok());
  const std::string file = options_.directory + "/cluster.json";
  std::ofstream(file) << "{";
  const auto up = BringUp();
  EXPECT_THAT(std::string(up.status().message()), HasSubstr(file));
  EXPECT_THAT(std::string(up.status().message()), HasSubstr("remove this file"));
  std::filesystem::remove(file);
  EXPECT_TRUE(BringUp().ok());
}

TEST_F(LocalClusterTest, PortAndNodesAreTheSameAfterDownAndUp) {
  const auto first = BringUp();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Stop().ok());
  options_.agents.reset();
  const auto second = BringUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->shape.listen.ToString(), first->shape.listen.ToString());
  EXPECT_EQ(second->shape.nodes, PlainNodes(2));
}

constexpr char kTwoZones[] = R"(levels: [zone, rack]
nodes:
  - {name: a1, at: {zone: z0, rack: r0}, device: cpu, devices: 2}
  - {name: b1, at: {zone: z1}, device: cpu, devices: 1}
)";

class TopologyTest : public LocalClusterTest {
 protected:
  std::string Write(const std::string& text) {
    const std::string file = root_ + "/map.yaml";
    std::ofstream(file) << text;
    return file;
  }
  // The next `up` is given that file.
  void Give(const std::string& text) {
    auto topology = ReadLocalTopology(Write(text));
    ASSERT_TRUE(topology.ok()) << topology.status();
    options_.topology = *std::move(topology);
    options_.agents.reset();
    hooks_.say = [this](const std::string& said) { said_ += said + "\n"; };
  }
  ::testing::AssertionResult HasArguments(const std::string& folder, const std::string& text) {
    return Eventually([&] { return absl::StrContains(Arguments(folder), text); });
  }
  std::string said_;
};

TEST_F(TopologyTest, NodesHaveTheFilesNamesDevicesAndPlaces) {
  Give(kTwoZones);
  const auto up = BringUp();
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_TRUE(HasArguments("controller", "--topology " + options_.directory + "/topology.yaml"));
  EXPECT_TRUE(HasArguments("nodes/a1", "--node a1"));
  EXPECT_TRUE(HasArguments("nodes/a1", "--devices 2"));
  EXPECT_TRUE(HasArguments("nodes/a1", "--locality rack=r0 --locality zone=z0"));
  EXPECT_TRUE(HasArguments("nodes/b1", "--devices 1"));
  EXPECT_TRUE(HasArguments("nodes/b1", "--locality zone=z1"));
  EXPECT_EQ(said_, "");
}

TEST_F(TopologyTest, TheMapStaysAfterDownAndUpAlsoWithoutTheFile) {
  Give(kTwoZones);
  ASSERT_TRUE(BringUp().ok());
  ASSERT_TRUE(Stop().ok());
  options_.topology.reset();
  options_.agents = 3;
  const auto three = BringUp();
  EXPECT_TRUE(absl::IsInvalidArgument(three.status()));
  EXPECT_THAT(std::string(three.status().message()), HasSubstr("topology.yaml has 2 nodes"));
  options_.agents = 2;
  const auto again = BringUp();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(HasArguments("nodes/a1", "--locality rack=r0"));
  EXPECT_TRUE(HasArguments("controller", "--topology"));
}

TEST_F(TopologyTest, AChangedFileIsTakenOverAtTheNextUpOnly) {
  Give(kTwoZones);
  ASSERT_TRUE(BringUp().ok());
  EXPECT_TRUE(BringUp().ok());  // the same file: the cluster is adopted
  Give(absl::StrCat(kTwoZones, "  - {name: c1, device: cpu, devices: 1}\n"));
  const auto live = BringUp();
  EXPECT_TRUE(absl::IsFailedPrecondition(live.status()));
  EXPECT_THAT(std::string(live.status().message()), HasSubstr("its topology is not that of"));
  ASSERT_TRUE(Stop().ok());
  said_.clear();
  const auto up = BringUp();
  ASSERT_TRUE(up.ok()) << up.status();
  EXPECT_EQ(up->shape.nodes.size(), 3u);
  EXPECT_THAT(said_, HasSubstr("the cluster's topology is now that of"));
  EXPECT_THAT(said_, HasSubstr("(it has changed)"));
}

TEST_F(TopologyTest, WhatTheFileSaysOfTheMomentIsLeftOutAndTold) {
  Give("nodes: [{name: n0, device: cpu, devices: 2, free: 1}]\n");
  ASSERT_TRUE(BringUp().ok());
  EXPECT_THAT(said_, HasSubstr("free and healthy of n0 mean nothing here"));
}

TEST_F(LocalClusterTest, ATakenPortIsToldAndNothingRuns) {
  const auto taken = ChoosePort("127.0.0.1", 7, {});
  ASSERT_TRUE(taken.ok());
  const int fd = Occupy(*taken);
  options_.listen = *taken;
  const auto up = BringUp();
  EXPECT_TRUE(absl::IsAlreadyExists(up.status()));
  EXPECT_THAT(std::string(up.status().message()),
              HasSubstr(absl::StrCat(taken->port, " is in use")));
  EXPECT_TRUE(Marked().empty());
  close(fd);
}

TEST_F(LocalClusterTest, AControllerThatCannotLiveIsGivenUpWithItsLastWords) {
  Install("strata-controller", "#!/bin/bash\necho the disk is full >&2\nexit 1\n");
  hooks_.probe = [](const ClusterShape&) { return absl::UnavailableError("the controller"); };
  const auto up = BringUp();
  EXPECT_FALSE(up.ok());
  EXPECT_THAT(std::string(up.status().message()), HasSubstr("the disk is full"));
  EXPECT_TRUE(Marked().empty());
}

}  // namespace
}  // namespace strata::client
